"""What one node has to be told because of what happened on another. Pure: a plan and a snapshot in.

Nodes do not know each other. What each can find out by itself it does (docs/agent-protocol.md); who follows
the run knows more, and sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_profiles.plan import ProcessKind
from rankdeck_runs.states import RankState, RunSnapshot
from rankdeck_runs.values import integers, objects, text


@dataclass(frozen=True, slots=True)
class Order:
    """Something that a node is to be told as soon as it can be."""

    op: str
    """`stop`, `finish` or `launcher_ended`, as in the agent's protocol."""
    signal: str = ""
    """For `stop`."""
    grace: float = 0.0
    """For `stop`: seconds."""
    ranks: tuple[int, ...] = ()
    """For `finish`: those whose work is done."""


def due(plan: Mapping[str, Any], snapshot: RunSnapshot) -> list[tuple[str, Order]]:
    """What nodes are to be told now, each with its node's name. What was told before is told again.

    Args:
        plan: `LaunchPlan.to_json()`, as in plan.json.
        snapshot: what is known of the run.
    """
    open_nodes = {node.name for node in snapshot.nodes if not node.state.is_terminal}
    found = [*_without_mpirun(plan, snapshot), *_done_serving(plan, snapshot)]
    return [(node, order) for node, order in found if node in open_nodes]


def _without_mpirun(plan: Mapping[str, Any], snapshot: RunSnapshot) -> Iterator[tuple[str, Order]]:
    """Nodes without a process, whose ranks an mpirun elsewhere starts, once that has ended."""
    ended = {(launcher.node, launcher.process) for launcher in snapshot.launchers if launcher.ended}
    gone = any(
        (text(node, "node"), index) in ended
        for node in objects(plan, "nodes")
        for index, process in enumerate(objects(node, "processes"))
        if process.get("kind") == ProcessKind.MPIRUN
    )
    if gone:
        for node in objects(plan, "nodes"):
            if not objects(node, "processes"):
                yield text(node, "node"), Order("launcher_ended")


def _done_serving(plan: Mapping[str, Any], snapshot: RunSnapshot) -> Iterator[tuple[str, Order]]:
    """Ranks that serve others, once all of those have ended well."""
    done = {rank.rank for rank in snapshot.ranks if rank.state is RankState.SUCCEEDED}
    for node in objects(plan, "nodes"):
        over = tuple(
            rank
            for process in objects(node, "processes")
            if isinstance(ends := process.get("ends_with"), dict) and done.issuperset(integers(ends, "ranks"))
            for rank in integers(process, "ranks")
            if rank not in done
        )
        if over:
            yield text(node, "node"), Order("finish", ranks=over)
