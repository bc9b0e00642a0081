"""From what was seen to what is so: the states of ranks, nodes and the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.failures import Failure
from rankdeck_runs.folded import Folded, FoldedNode
from rankdeck_runs.states import NodeState, NodeStatus, RankState, RankStatus, RunState, Timing


def rank_status(state: Folded, rank: RankStatus, first: Failure | None) -> RankStatus:
    """A rank as shown: who was only taken down with another has not failed itself.

    Launchers end their other ranks with SIGTERM when one fails (torchrun does so within its monitor
    interval): a SIGTERM that we did not send, after another failure or a person's stop, is theirs.
    """
    node = state.nodes.get(rank.node or rank.planned)
    if node is not None and not rank.state.is_terminal:
        if node.called_off:
            return replace(rank, state=RankState.STOPPED, why="never started: the launch was called off")
        if node.ended is NodeState.STOPPED and rank.state is RankState.WAITING:
            return replace(rank, state=RankState.STOPPED, why="never started: its node was stopped before")
        if node.missing is not None:
            return replace(rank, state=RankState.LOST, why=node.missing)
        if node.refused is not None:
            return replace(rank, state=RankState.FAILED, why=f"never started: {node.refused}")
        if node.link_lost is not None:
            return replace(rank, state=RankState.LOST, why=f"last seen {rank.state}: {node.link_lost}")
    others = state.stop_asked is not None or (first is not None and first.rank != rank.rank)
    if rank.state is RankState.FAILED and rank.signal == "TERM" and others:
        return replace(rank, state=RankState.STOPPED)
    return rank


def node_state(state: Folded, node: FoldedNode) -> NodeState:
    """A node's state. What has ended is told before the link: nothing can change it any more."""
    if node.ended is not None:
        return node.ended
    if node.refused is not None:
        return NodeState.FAILED
    if node.missing is not None:
        return NodeState.UNKNOWN
    if node.link_lost is not None:
        return NodeState.LOST
    if node.stopping:
        return NodeState.STOPPING
    if not node.asked:
        return NodeState.WAITING
    here = state.ranks_of(node)
    begun = len(here) >= node.dealt and all(state.ranks[r].state is not RankState.WAITING for r in here)
    return NodeState.RUNNING if begun else NodeState.STARTING


UNGUARDED = (
    "its supervisor is gone (killed?): its ranks run on, and nobody there stops them if another rank fails;"
    " what ends is known from the ranks' shims alone"
)


def node_message(node: FoldedNode) -> str:
    """What is to be said of a node that is not as it should be; empty where it is."""
    trouble = node.refused or node.missing or node.link_lost
    if node.called_off:
        return "not asked to start: the launch was called off"
    if trouble or node.ended is not None:
        return trouble or ""
    if node.unguarded:
        return UNGUARDED
    if node.awaited is not None and not node.stopping:
        return f"the others wait for it: {node.awaited[0]}"
    return next(iter(node.unheard.values()), "")


def run_state(
    state: Folded, nodes: Sequence[NodeStatus], ranks: Sequence[RankStatus], first: Failure | None
) -> RunState:
    """The run's state, from its nodes' and ranks' evidence; without any it is unknown."""
    if not nodes:
        return RunState.UNKNOWN
    open_nodes = [node for node in nodes if not node.state.is_terminal]
    if not open_nodes:
        return _ended_run(nodes, ranks, first, state.stop_asked is not None)
    if all(node.state is NodeState.LOST for node in open_nodes):
        return RunState.LOST
    if state.stopping or any(node.state is NodeState.STOPPING for node in open_nodes):
        return RunState.STOPPING
    if all(rank.state is not RankState.WAITING for rank in ranks):
        return RunState.RUNNING
    asked = any(node.state is not NodeState.WAITING for node in nodes)
    return RunState.STARTING if asked else RunState.CHECKING


def _ended_run(
    nodes: Sequence[NodeStatus], ranks: Sequence[RankStatus], first: Failure | None, asked: bool
) -> RunState:
    if first is not None:
        return RunState.UNKNOWN if first.kind is CauseKind.UNKNOWN else RunState.FAILED
    states = {node.state for node in nodes}
    if asked and states & {NodeState.STOPPED, NodeState.FAILED}:
        return RunState.STOPPED
    if NodeState.FAILED in states:
        return RunState.FAILED
    unknown = {RankState.UNKNOWN, RankState.LOST}
    if NodeState.UNKNOWN in states or any(rank.state in unknown for rank in ranks):
        return RunState.UNKNOWN
    return RunState.STOPPED if NodeState.STOPPED in states else RunState.SUCCEEDED


def timing(state: Folded, ranks: Sequence[RankStatus], run: RunState) -> Timing:
    """When the run began and ended, from its ranks; from its nodes where no rank ever ran."""
    started = [rank.started for rank in ranks if rank.started is not None]
    ended = [rank.ended for rank in ranks if rank.ended is not None]
    ended += [node.ended_at for node in state.nodes.values() if node.ended_at is not None]
    if not ended and run.is_terminal:
        ended = [failure.t for failure in state.failures]
    return Timing(
        created=state.created,
        start_asked=state.start_asked,
        started=state.first_started,
        all_started=max(started) if ranks and len(started) == len(ranks) else None,
        ended=max(ended, default=None) if run.is_terminal else None,
    )
