"""The fabric rules within a launch plan: which nodes they are asked for, and whose variables are whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.rules import FabricVariables, compute
from rankdeck_profiles.fabric.telling import telling
from rankdeck_profiles.facts import MpiFamily, NodeFacts
from rankdeck_profiles.model import BackendKind, Pool, Profile
from rankdeck_profiles.placement import Placement
from rankdeck_profiles.settings import Setting

ORIGIN = "fabric"
"""Stands in front of the reason of each variable that comes from the fabric rules."""

_OF_MPIRUN = ("OMPI_MCA_", "PRTE_MCA_")


def variables(
    profile: Profile, pool: Pool, placement: Placement, facts: Mapping[str, NodeFacts]
) -> FabricVariables | None:
    """What the fabric rules give.

    Returns:
        None for a run on one node, for local nodes (which are loopback addresses of this machine), and where
        some node was not read.
    """
    if len(placement.shares) == 1 or pool.backend is BackendKind.LOCAL:
        return None
    nodes = {}
    for share in placement.shares:
        found = facts.get(share.node.name)
        if found is None or found.readings is None:
            return None
        nodes[share.node.name] = NodeFabric(found.readings)
    if not all(node.interfaces for node in nodes.values()):
        return None
    return compute(
        nodes,
        framework=profile.framework,
        addresses={name: facts[name].address for name in nodes},
        interface=pool.interface,
        profile_env=profile.env,
        open_mpi=open_mpi(facts, nodes),
    )


def open_mpi(facts: Mapping[str, NodeFacts], nodes: Mapping[str, object]) -> int | None:
    """The major version of the nodes' Open MPI; 0: another MPI; None: not known."""
    asked = [mpi for name in nodes if (mpi := facts[name].mpi) is not None]
    if not asked:
        return None
    major = asked[0].version.partition(".")[0]
    if asked[0].family is not MpiFamily.OPEN_MPI:
        return 0
    return int(major) if major.isdecimal() else None


def met(facts: Mapping[str, NodeFacts], fabric: FabricVariables | None) -> dict[str, NodeFacts]:
    """The facts, with each node's address, interface and network those at which all nodes meet."""
    known = dict(facts)
    if fabric is None or not fabric.meeting.common:
        return known
    for name, place in fabric.meeting.places.items():
        known[name] = replace(
            known[name],
            address=str(place.address.ip),
            interface=place.interface.name,
            network=str(place.network),
        )
    return known


def of_ranks(fabric: FabricVariables | None, node: str) -> tuple[Setting, ...] | None:
    """The variables of a node's ranks; None: there are no rules to go by."""
    if fabric is None:
        return None
    return tuple(setting for setting in _settings(fabric, node) if not setting.name.startswith(_OF_MPIRUN))


def of_mpirun(fabric: FabricVariables | None, node: str) -> tuple[Setting, ...] | None:
    """The variables of mpirun itself, for its own connections; None: there are no rules to go by."""
    if fabric is None:
        return None
    return tuple(setting for setting in _settings(fabric, node) if setting.name.startswith(_OF_MPIRUN))


def of_reports(fabric: FabricVariables | None, profile: Profile, node: str) -> tuple[Setting, ...]:
    """The variables that have a node's ranks say which network they really take."""
    if fabric is None:
        return ()
    found = telling(fabric, node, framework=profile.framework, profile_env=profile.env)
    return tuple(Setting(each.name, each.value, f"{ORIGIN}: {each.why}") for each in found)


def warnings(fabric: FabricVariables | None) -> tuple[str, ...]:
    """What the rules could not settle."""
    if fabric is None:
        return ()
    apart = () if fabric.meeting.common else (fabric.meeting.why,)
    return (*apart, *fabric.notes)


def _settings(fabric: FabricVariables, node: str) -> tuple[Setting, ...]:
    return tuple(
        Setting(each.name, each.value, f"{ORIGIN}: {each.why}") for each in fabric.nodes[node].settings
    )
