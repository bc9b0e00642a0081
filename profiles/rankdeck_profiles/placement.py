"""Which rank runs on which node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdeck_profiles import frameworks, gpu_choice
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.frameworks.base import Framework, default_counts
from rankdeck_profiles.model import Pool, PoolNode, Profile
from rankdeck_profiles.nodes import MAX_SLOTS

MAX_RANKS = MAX_SLOTS
"""The most ranks on one node: more than machines have CPUs; a slip of the finger does no harm."""


@dataclass(frozen=True, slots=True)
class Share:
    """One node's ranks."""

    node: PoolNode
    node_rank: int
    ranks: tuple[int, ...]
    slots: int = 0
    """How many ranks the node takes; 0: not known."""

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """0 to the number of ranks on this node."""
        return tuple(range(len(self.ranks)))


@dataclass(frozen=True, slots=True)
class Placement:
    """All nodes' shares, the head node first."""

    shares: tuple[Share, ...]

    @property
    def world_size(self) -> int:
        """How many ranks there are in all."""
        return sum(len(share.ranks) for share in self.shares)


@dataclass(frozen=True, slots=True)
class _Slots:
    """How many ranks a node takes, and whether that is known or only assumed."""

    count: int
    origin: str
    """Empty: neither the pool nor the facts say so; the profile's count is then taken as given."""


def place(
    profile: Profile,
    pool: Pool,
    facts: Mapping[str, NodeFacts] | None,
    *,
    node_names: Sequence[str] | None = None,
) -> Placement:
    """Spread a profile's ranks over a pool's nodes: block-wise, in the pool's order.

    Args:
        profile: says how many nodes and ranks.
        pool: says which nodes there are and how many ranks they take.
        facts: what the nodes said, by node name; None where nothing was asked.
        node_names: use these nodes of the pool, in this order.

    Raises:
        PlanError: the counts do not fit together. The message has the numbers.
    """
    nodes = _chosen(profile, pool, node_names)
    slots = [_slots(node, pool, facts) for node in nodes]
    framework = frameworks.get(profile.framework)
    counts = _counts(profile, framework, nodes, slots)
    for node, slot, count in zip(nodes, slots, counts, strict=True):
        if count > MAX_RANKS:
            raise PlanError(
                f"{count} ranks on node {node.name}",
                f"allowed: {MAX_RANKS}; lower procs_per_node or process_count",
            )
        if slot.origin and count > slot.count and framework.fills_slots(profile):
            raise PlanError(
                f"{count} ranks on node {node.name}, which takes {slot.count} ({slot.origin})",
                f"lower procs_per_node or process_count, use more nodes, or raise slots of '{pool.name}'",
            )
    shares = []
    first = 0
    for node_rank, (node, slot, count) in enumerate(zip(nodes, slots, counts, strict=True)):
        known = slot.count if slot.origin else 0
        shares.append(Share(node, node_rank, tuple(range(first, first + count)), known))
        first += count
    return Placement(tuple(shares))


def _chosen(profile: Profile, pool: Pool, node_names: Sequence[str] | None) -> tuple[PoolNode, ...]:
    nodes = pool.nodes
    if not nodes:
        raise PlanError(f"pool '{pool.name}' has no nodes", 'list them, such as nodes = ["gpu[001-004]"]')
    if node_names is not None:
        by_name = {node.name: node for node in nodes}
        unknown = [name for name in node_names if name not in by_name]
        if unknown or not node_names or len(set(node_names)) != len(node_names):
            raise PlanError(
                f"nodes chosen: {', '.join(node_names) or 'none'}",
                f"choose one or more of pool '{pool.name}', each once: {', '.join(by_name)}",
            )
        nodes = tuple(by_name[name] for name in node_names)
    if profile.nodes is None:
        return nodes
    if profile.nodes > len(nodes):
        where = f"pool '{pool.name}'" if node_names is None else "the choice"
        raise PlanError(
            f"nodes = {profile.nodes}, but {where} has {len(nodes)}: {_listed(nodes)}",
            f"set nodes to {len(nodes)} or less, or use a pool with more nodes",
        )
    return nodes[: profile.nodes]


def _listed(nodes: Sequence[PoolNode]) -> str:
    names = [node.name for node in nodes[:8]]
    return ", ".join(names) + (f" and {len(nodes) - 8} more" if len(nodes) > 8 else "")


def _slots(node: PoolNode, pool: Pool, facts: Mapping[str, NodeFacts] | None) -> _Slots:
    found = facts.get(node.name) if facts else None
    gpus = gpu_choice.chosen(node, found)
    if gpus is not None and node.slots in (None, len(gpus)):
        return _Slots(len(gpus), f"GPUs {','.join(map(str, gpus))} chosen")
    if node.slots is not None:
        return _Slots(node.slots, f"slots={node.slots} in pool '{pool.name}'")
    if pool.slots is not None:
        return _Slots(pool.slots, f"slots = {pool.slots} in pool '{pool.name}'")
    if found and found.gpus:
        return _Slots(len(found.gpus), f"{len(found.gpus)} GPUs found")
    return _Slots(1, "")


def _counts(
    profile: Profile, framework: Framework, nodes: Sequence[PoolNode], slots: Sequence[_Slots]
) -> list[int]:
    names = [node.name for node in nodes]
    free = [slot.count for slot in slots]
    if profile.process_count is not None:
        return _divided(profile, profile.process_count, framework, slots)
    if profile.procs_per_node is not None:
        return [profile.procs_per_node] * len(nodes)
    own = framework.counts(profile, names, free)
    return own if own is not None else default_counts(framework, profile, names, free)


def _divided(profile: Profile, total: int, framework: Framework, slots: Sequence[_Slots]) -> list[int]:
    """The total over the nodes: evenly, or, where that is just what the nodes take together, by slots."""
    nodes = len(slots)
    takes = [slot.count for slot in slots]
    known = all(slot.origin for slot in slots)
    by_slots_too = profile.procs_per_node is None and known and not framework.same_count(profile)
    if by_slots_too and total == sum(takes):
        return takes
    each, rest = divmod(total, nodes)
    if rest or not each:
        by_slots = f" (their slots are {' + '.join(map(str, takes))})" if len(set(takes)) > 1 else ""
        raise PlanError(
            f"process_count = {total} does not divide over {nodes} nodes{by_slots}",
            f"use a multiple of {nodes}, or another number of nodes",
        )
    if profile.procs_per_node not in (None, each):
        raise PlanError(
            f"process_count = {total} over {nodes} nodes is {each} a node, "
            f"but procs_per_node = {profile.procs_per_node}",
            "give one of the two",
        )
    return [each] * nodes
