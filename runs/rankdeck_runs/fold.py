"""From events to what is known: pure, tolerant of order, and safe against whatever a damaged file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankdeck_runs import failures, folded, login_events, node_events, verdict
from rankdeck_runs.causes import Cause, PastAttempt
from rankdeck_runs.failures import Failure
from rankdeck_runs.folded import FoldedNode
from rankdeck_runs.states import NodeStatus, RunSnapshot
from rankdeck_runs.values import integer, text


class Fold:
    """The state of a run, one event at a time.

    Args:
        run_id: the run's id.
        plan: `LaunchPlan.to_json()`, as in plan.json.
    """

    def __init__(self, run_id: str, plan: Mapping[str, Any]) -> None:
        self._state = folded.from_plan(run_id, plan)

    def apply(self, event: Mapping[str, Any]) -> bool:
        """Take one event in.

        Returns:
            False for a node's event that was seen before, or is of a node that the plan does not have.
        """
        ev = text(event, "ev")
        node = self._state.nodes.get(text(event, "node"))
        seq = integer(event, "seq")
        if seq is not None:
            return self._apply_of_node(node, seq, ev, event)
        if handle_node := login_events.OF_NODE.get(ev):
            if node is None:
                return False
            handle_node(self._state, node, event)
        elif handle := login_events.OF_RUN.get(ev):
            handle(self._state, event)
        return True

    def _apply_of_node(self, node: FoldedNode | None, seq: int, ev: str, event: Mapping[str, Any]) -> bool:
        if node is None or seq < 1 or not node.take(seq):
            return False
        # Whoever brought this event has reached the node since the link was lost, and found the run there.
        node.link_lost = None
        node.asked = True
        if handle := node_events.HANDLERS.get(ev):
            handle(self._state, node, node.by_our_clock(event))
        return True

    def last_seq(self, node: str) -> int:
        """The number of the node's last event before which none is missing; 0 for none."""
        known = self._state.nodes.get(node)
        return known.contiguous if known else 0

    def failures(self) -> list[Failure]:
        """All failures in order, that first from which the others followed."""
        state = self._state
        gave_up = any(node.gave_up for node in state.nodes.values())
        final = failures.final(state.failures, state.attempt, gave_up)
        return failures.ranked(final, state.stop_asked, state.named)

    def snapshot(self) -> RunSnapshot:
        """All that is known, as one frozen value."""
        state, first = self._state, next(iter(self.failures()), None)
        ranks = tuple(verdict.rank_status(state, state.ranks[rank], first) for rank in sorted(state.ranks))
        nodes = tuple(
            NodeStatus(
                node.name,
                node.node_rank,
                node.address,
                verdict.node_state(state, node),
                state.ranks_of(node),
                verdict.node_message(node),
                node.awaited[1] if node.awaited is not None and not state.stopping_anywhere() else None,
                node.copy,
                node.kill_at if node.ended is None else None,
                node.unguarded and node.ended is None,
            )
            for node in sorted(state.nodes.values(), key=lambda node: node.node_rank)
        )
        run = verdict.run_state(state, nodes, ranks, first)
        return RunSnapshot(
            id=state.run_id,
            state=run,
            profile=state.profile,
            framework=state.framework,
            pool=state.pool,
            backend=state.backend,
            world_size=len(ranks),
            nodes=nodes,
            ranks=ranks,
            launchers=tuple(state.launchers[key] for key in sorted(state.launchers)),
            cause=self._cause(first),
            attempt=state.attempt,
            attempts=state.attempts,
            earlier_attempts=tuple(self._past(attempt) for attempt in range(1, state.attempt)),
            swept=tuple(state.swept.values()),
            timing=verdict.timing(state, ranks, run),
            complete=state.complete,
            notes=tuple(state.notes),
            counts=dict(Counter(rank.state for rank in ranks)),
            fabric=state.fabric,
            fabric_unused=state.fabric_unused,
            active_test=state.active_test,
        )

    def _past(self, attempt: int) -> PastAttempt:
        """An attempt that is over. What failed in the one after it is no cause of that."""
        seen = [f for f in self._state.failures if f.attempt == attempt and f.rank is not None]
        first = failures.first(seen, None)
        return PastAttempt(attempt, None if first is None else first.as_cause())

    def _cause(self, first: Failure | None) -> Cause | None:
        if first is None:
            return None
        found, about = self._state.found, self._state.found_about
        if found is None:
            return first.as_cause()
        if about is None:  # a record of before: it was of the failing program's own log
            about = found.node, found.kind, first.rank if first.rank is None else found.rank
        if about != (first.node, first.kind, first.rank):
            return first.as_cause()
        if first.rank is not None or found.rank is None:
            return found
        # A launcher named the rank that ended its job: it is told of where that rank is.
        named = self._state.ranks.get(found.rank)
        return replace(found, node=named.node or found.node) if named is not None else first.as_cause()
