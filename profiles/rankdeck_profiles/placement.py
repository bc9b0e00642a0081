"""Which rank runs on which node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdeck_profiles import frameworks
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.model import Pool, PoolNode, Profile

MAX_RANKS = 4096
"""The most ranks on one node: more than machines have CPUs; a slip of the finger does no harm."""


@dataclass(frozen=True, slots=True)
class Share:
    """One node's ranks."""

    node: PoolNode
    node_rank: int
    ranks: tuple[int, ...]

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
    counts = _counts(profile, nodes, slots)
    for node, slot, count in zip(nodes, slots, counts, strict=True):
        if count > MAX_RANKS:
            raise PlanError(
                f"{count} ranks on node {node.name}",
                f"allowed: {MAX_RANKS}; lower procs_per_node or process_count",
            )
        if slot.origin and count > slot.count:
            raise PlanError(
                f"{count} ranks on node {node.name}, which takes {slot.count} ({slot.origin})",
                f"lower procs_per_node or process_count, use more nodes, or raise slots of '{pool.name}'",
            )
    shares = []
    first = 0
    for node_rank, (node, count) in enumerate(zip(nodes, counts, strict=True)):
        shares.append(Share(node, node_rank, tuple(range(first, first + count))))
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
    if pool.slots is not None:
        return _Slots(pool.slots, f"slots = {pool.slots} in pool '{pool.name}'")
    found = facts.get(node.name) if facts else None
    if found and found.gpus:
        return _Slots(len(found.gpus), f"{len(found.gpus)} GPUs found")
    return _Slots(1, "")


def _counts(profile: Profile, nodes: Sequence[PoolNode], slots: Sequence[_Slots]) -> list[int]:
    framework = frameworks.get(profile.framework)
    if profile.process_count is not None:
        each, rest = divmod(profile.process_count, len(nodes))
        if rest or not each:
            raise PlanError(
                f"process_count = {profile.process_count} does not divide over {len(nodes)} nodes",
                f"use a multiple of {len(nodes)}, or another number of nodes",
            )
        if profile.procs_per_node not in (None, each):
            raise PlanError(
                f"process_count = {profile.process_count} over {len(nodes)} nodes is {each} a node, "
                f"but procs_per_node = {profile.procs_per_node}",
                "give one of the two",
            )
        return [each] * len(nodes)
    if profile.procs_per_node is not None:
        return [profile.procs_per_node] * len(nodes)
    counts = [framework.default_procs(slot.count) for slot in slots]
    if framework.same_count_everywhere and len(set(counts)) > 1:
        found = ", ".join(f"{node.name} {count}" for node, count in zip(nodes, counts, strict=True))
        raise PlanError(
            f"{framework.name} needs the same number of ranks on every node, and the slots differ: {found}",
            f"set procs_per_node, such as {min(counts)}",
        )
    return counts
