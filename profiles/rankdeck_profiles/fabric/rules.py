"""From all nodes' networks to the variables that a run needs: as few as possible, each with its reason.

NCCL and UCX choose well by themselves; a variable is set only where their own choice would be wrong on some
node of this pool. What somebody set before (in the environment, or in NCCL's files) is left alone. Values are
each node's own: names of devices, GID indices and interfaces are local to it.

Sources: NCCL 2.30 (src/misc/socket.cc, src/misc/param.cc, src/transport/net_ib), gloo (transport/tcp),
UCX (ucs/config), Open MPI 4.1 and 5 with PRRTE, Azure/azhpc-images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rankdeck_profiles.fabric import rdma_rules, socket_rules
from rankdeck_profiles.fabric.choice import Choice, choose
from rankdeck_profiles.fabric.inherited import Inherited, InheritedSet, inherited
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.setting import FabricSetting, Pool, Wanted
from rankdeck_profiles.fabric.sockets import Meeting, meet
from rankdeck_profiles.versions import Version

MPI_FRAMEWORKS = ("mpi", "horovod", "deepspeed")
"""Those whose ranks an mpirun starts."""

_FAMILIES = ("NCCL_", "UCX_", "GLOO_")
"""What is found set stays; Open MPI's are taken out of the environment before a launch (`leftovers`)."""


@dataclass(frozen=True, slots=True)
class NodeVariables:
    """What one node's ranks get from the fabric rules."""

    settings: tuple[FabricSetting, ...] = ()
    keep: tuple[Inherited, ...] = ()
    """Set already, by a file of NCCL's or in the environment, and left alone."""


@dataclass(frozen=True, slots=True)
class FabricVariables:
    """The rules' answer for a pool."""

    nodes: Mapping[str, NodeVariables]
    choice: Choice
    meeting: Meeting
    notes: tuple[str, ...] = field(default=())
    """What cannot be settled by variables, in words."""

    def handles(self, name: str, node: str) -> bool:
        """Whether a variable is set on a node, by us or by somebody before."""
        found = self.nodes.get(node, NodeVariables())
        return name in {*(each.name for each in found.settings), *(each.name for each in found.keep)}


RULES: tuple[Callable[[str, Pool], Wanted], ...] = (
    rdma_rules.disable,
    rdma_rules.hca,
    rdma_rules.gid_index,
    rdma_rules.partition,
    rdma_rules.cross_nic,
    rdma_rules.gdr_level,
    rdma_rules.azure,
    socket_rules.nccl,
    socket_rules.gloo,
    rdma_rules.ucx,
    socket_rules.open_mpi,
)
"""In the order in which the variables are shown."""


def compute(
    nodes: Mapping[str, NodeFabric],
    *,
    framework: str = "torchrun",
    addresses: Mapping[str, str] | None = None,
    interface: str | None = None,
    profile_env: Mapping[str, str] | None = None,
    open_mpi: int | None = None,
    nccl: Version | None = None,
) -> FabricVariables:
    """The variables for a pool of two nodes or more, whatever its state: the best if it is launched so.

    Args:
        nodes: in the pool's order.
        framework: as in a profile; MPI's get the variables of UCX and Open MPI, too.
        addresses: the address each node is reached at, where that is settled.
        interface: the one that the user names for all nodes.
        profile_env: the profile's own variables; they are never set.
        open_mpi: Open MPI's major version; 0: the MPI is another one; None: not known, the names of all
            versions are set.
        nccl: its version; None: what the nodes say, else a recent one.
    """
    choice = choose(nodes)
    pool = Pool(
        nodes=nodes,
        choice=choice,
        meeting=meet(nodes, addresses=addresses, interface=interface, rdma=choice.kind is not None),
        interface=interface,
        mpi=framework in MPI_FRAMEWORKS,
        open_mpi=open_mpi,
        nccl=nccl or _oldest_nccl(nodes),
    )
    return FabricVariables(
        nodes={
            name: _apart(_wanted(name, pool), inherited(node.readings, profile_env))
            for name, node in nodes.items()
        },
        choice=choice,
        meeting=pool.meeting,
        notes=rdma_rules.notes(pool),
    )


def _wanted(name: str, pool: Pool) -> tuple[FabricSetting, ...]:
    settings = tuple(setting for rule in RULES for setting in rule(name, pool))
    if pool.nodes[name].gcp_script is None:
        return settings
    # Google's script sets all of NCCL's variables, and its plugin refuses other values.
    return tuple(setting for setting in settings if not setting.name.startswith("NCCL_"))


def _apart(wanted: tuple[FabricSetting, ...], before: InheritedSet) -> NodeVariables:
    """What we set, and what stays: a variable that has a value is not set again."""
    keep = tuple(
        found for found in before.effective.values() if found.value and found.name.startswith(_FAMILIES)
    )
    kept = {found.name for found in keep}
    return NodeVariables(tuple(setting for setting in wanted if setting.name not in kept), keep)


def _oldest_nccl(nodes: Mapping[str, NodeFabric]) -> Version | None:
    known = [version for node in nodes.values() if (version := node.nccl_version) is not None]
    return min(known, default=None)
