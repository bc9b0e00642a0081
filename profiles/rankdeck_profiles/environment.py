"""The environment that rankdeck computes: what it sets, what it takes away, and why.

As few variables as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from rankdeck_profiles import gpu_choice
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.leftovers import KEPT, LEFTOVERS, VISIBLE_DEVICES, Leftover
from rankdeck_profiles.masking import shown
from rankdeck_profiles.model import BackendKind, Pool, Profile
from rankdeck_profiles.placement import Placement, Share
from rankdeck_profiles.plan import FoundVariable, Head
from rankdeck_profiles.settings import Setting

INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Name the network interface for torch's two communication libraries.

Unset, gloo takes the one its host name resolves to and NCCL the first that looks right: with several
networks, nodes then wait for each other on different ones."""


def common(
    share: Share,
    placement: Placement,
    pool: Pool,
    facts: Mapping[str, NodeFacts] | None,
    *,
    fabric: Sequence[Setting] | None = None,
    ranks_start_more: bool = False,
) -> tuple[Setting, ...]:
    """What every framework's ranks get on one node.

    Args:
        share: the node and its ranks.
        placement: all nodes, for how many there are and which of them are one machine.
        pool: may name the interface.
        facts: what the nodes said, by name; without a node's facts, what depends on them is left out.
        fabric: what the fabric rules found; None: too little is known for them, and the interface is named.
        ranks_start_more: each rank will start one more process a slot, which share the CPUs.
    """
    settings = list(fabric or ())
    interface = interface_of(share, placement, pool, facts) if fabric is None else None
    if interface is not None:
        name, why = interface
        settings += [Setting(variable, name, why) for variable in INTERFACE_VARIABLES]
    found = (facts or {}).get(share.node.name)
    gpus = gpu_choice.chosen(share.node, found)
    if gpus is not None:
        settings.append(Setting(VISIBLE_DEVICES, ",".join(map(str, gpus)), "the GPUs chosen of this node"))
    if found is not None:
        ranks = _ranks_on_machine(found, placement, facts or {}, ranks_start_more)
        threads = max(1, found.cpus // ranks)
        why = f"{found.cpus} CPUs, {ranks} {'rank' if ranks == 1 else 'ranks'} on this machine"
        settings.append(Setting("OMP_NUM_THREADS", str(threads), why))
    settings.append(Setting("PYTHONUNBUFFERED", "1", "each line reaches the log when it is written"))
    settings.append(
        Setting("PYTHONFAULTHANDLER", "1", "a crash in native code leaves a traceback in the log")
    )
    return tuple(settings)


def interface_of(
    share: Share, placement: Placement, pool: Pool, facts: Mapping[str, NodeFacts] | None
) -> tuple[str, str] | None:
    """The interface a node's ranks use to reach other nodes, and why that one.

    Returns:
        None for a run on one node, which needs none, and where nobody says.
    """
    if len(placement.shares) == 1:
        return None
    if pool.interface is not None:
        return pool.interface, f"interface in pool '{pool.name}'"
    if pool.backend is BackendKind.LOCAL:
        return "lo", "the local backend's nodes are loopback addresses of this machine"
    found = (facts or {}).get(share.node.name)
    if found is None or not found.interface:
        return None
    return found.interface, f"holds the node's address {found.address}"


def asked_for(profile: Profile, head: Head, placement: Placement) -> tuple[Setting, ...]:
    """What the profile's own switches add for every framework.

    The names of Azure Batch are those that Azure ML sets for its MPI jobs, the one with the port only where
    there are several nodes (Azure ML's guide to distributed training; deepspeed/comm/comm.py reads them).
    """
    settings = []
    if profile.communication_backend is not None:
        settings.append(
            Setting("RANKDECK_COMM_BACKEND", profile.communication_backend.value, "communication_backend")
        )
    if profile.azure_names:
        why = "azure_names: where scripts made for Azure find the head node"
        if len(placement.shares) > 1:
            settings.append(Setting("AZ_BATCH_MASTER_NODE", head.endpoint, why))
        settings.append(Setting("AZ_BATCHAI_MPI_MASTER_NODE", head.address, why))
    return tuple(settings)


def leftover(name: str, families: Iterable[Leftover] = LEFTOVERS) -> Leftover | None:
    """The entry that a variable's name falls under, if any."""
    return next((entry for entry in families if fnmatchcase(name, entry.pattern)), None)


def removed(
    found: Mapping[str, str], keep: Iterable[str], families: Iterable[Leftover] = LEFTOVERS
) -> tuple[FoundVariable, ...]:
    """What is taken out of a node's environment.

    Args:
        found: variables of other launchers and schedulers that the node reported.
        keep: names that the profile asks for by `env_from`; they get the login shell's value.
        families: those that the framework must not see.

    Returns:
        By name; values of secrets masked.
    """
    kept = frozenset(keep)
    listed = tuple(families)
    variables = []
    for name in sorted(found):
        entry = leftover(name, listed)
        if entry is not None and name not in kept:
            variables.append(FoundVariable(name, shown(name, found[name]), entry.why))
    return tuple(variables)


def kept(
    found: Mapping[str, str], gone: Iterable[FoundVariable], ours: Iterable[str]
) -> tuple[FoundVariable, ...]:
    """What a node's environment keeps of its login, as far as programs and libraries are known to heed it.

    Args:
        found: as for `removed`.
        gone: what is removed.
        ours: names that the plan, or the login shell by `env_from`, gives a value.

    Returns:
        By name; values of secrets masked.
    """
    told = {variable.name for variable in gone} | set(ours)
    entries = [(name, leftover(name, (*KEPT, *LEFTOVERS))) for name in sorted(found) if name not in told]
    return tuple(
        FoundVariable(name, shown(name, found[name]), entry.why)
        for name, entry in entries
        if entry is not None
    )


def replaced(found: Mapping[str, str], reasons: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The reasons, with the login's own value where the plan's takes its place."""
    return {
        name: f"{why}, instead of the login's {shown(name, found[name])}"
        if name in env and found.get(name, env[name]) != env[name] and leftover(name) is None
        else why
        for name, why in reasons.items()
    }


def _ranks_on_machine(
    found: NodeFacts, placement: Placement, facts: Mapping[str, NodeFacts], ranks_start_more: bool
) -> int:
    """Processes of this run that share the node's CPUs: nodes with one boot id are one machine."""
    total = 0
    for share in placement.shares:
        other = facts.get(share.node.name)
        if share.node.name == found.node or (other and other.machine and other.machine == found.machine):
            total += max(1, share.slots) if ranks_start_more else len(share.ranks)
    return total or 1
