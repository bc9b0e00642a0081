"""What of a run is told, and that it is told once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.occasions import CAUSE_SECONDS, END, FAILURE, SILENCE, SILENT_SECONDS, Occasions
from rankdeck_runs.states import NodeState, NodeStatus, RunSnapshot, RunState

NODES = (
    NodeStatus("n1", 0, "10.0.0.1", NodeState.RUNNING),
    NodeStatus("n2", 1, "10.0.0.2", NodeState.RUNNING),
)
RUNNING = RunSnapshot("run-1", RunState.RUNNING, "resnet", "torchrun", "h100", "ssh", 2, NODES)
CAUSE = Cause(1, "n2", CauseKind.EXIT, "ValueError: no")
FAILING = replace(RUNNING, state=RunState.STOPPING, cause=CAUSE)
FAILED = replace(FAILING, state=RunState.FAILED)
SILENT = replace(RUNNING, nodes=(NODES[0], replace(NODES[1], state=NodeState.LOST)))


def kinds(occasions: Occasions, *snapshots: RunSnapshot, now: float = 0.0) -> list[str]:
    return [found.kind for snapshot in snapshots for found in occasions.take(snapshot, now)]


def test_a_failure_and_the_end_are_told_once() -> None:
    over = replace(FAILED, complete=True)
    assert kinds(Occasions(), RUNNING, FAILING, FAILING, FAILED, over, over) == [FAILURE, END]


def test_a_failed_runs_end_waits_for_its_logs_to_tell_the_cause() -> None:
    occasions = Occasions()
    assert occasions.take(FAILED, 0.0) == []
    assert occasions.take(FAILED, CAUSE_SECONDS - 1) == []
    assert not occasions.ended
    assert [found.kind for found in occasions.take(FAILED, CAUSE_SECONDS)] == [END]
    assert occasions.ended
    assert [found.kind for found in Occasions().take(FAILED, 0.0, last=True)] == [END]


def test_a_failure_that_is_seen_with_the_end_is_one_thing() -> None:
    (found,) = Occasions().take(replace(FAILED, complete=True), 0.0)
    assert (found.kind, found.rank, found.node) == (END, 1, "n2")
    assert found.message == "run resnet failed: rank 1 on n2: ValueError: no"


def test_what_was_known_before_is_not_told() -> None:
    assert kinds(Occasions(FAILED), FAILED) == []
    assert kinds(Occasions(FAILING), FAILING, replace(FAILED, complete=True)) == [END]


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.STOPPED, RunState.UNKNOWN])
def test_every_end_is_told(state: RunState) -> None:
    (found,) = Occasions().take(replace(RUNNING, state=state), 0.0)
    assert found.message == f"run resnet {state}"


def test_a_node_that_does_not_answer_is_told_after_a_while_and_again_when_it_was_back() -> None:
    occasions = Occasions()
    assert kinds(occasions, SILENT, now=10.0) == []
    assert kinds(occasions, SILENT, now=10.0 + SILENT_SECONDS - 1) == []
    (found,) = occasions.take(SILENT, 10.0 + SILENT_SECONDS)
    assert (found.kind, found.message) == (SILENCE, "run resnet n2 does not answer")
    assert kinds(occasions, SILENT, now=10.0 + 2 * SILENT_SECONDS) == []
    assert kinds(occasions, RUNNING, SILENT, now=500.0) == []
    assert kinds(occasions, SILENT, now=500.0 + SILENT_SECONDS) == [SILENCE]


def test_a_short_loss_is_not_told() -> None:
    occasions = Occasions()
    kinds(occasions, SILENT, now=0.0)
    kinds(occasions, RUNNING, now=30.0)
    assert kinds(occasions, SILENT, now=SILENT_SECONDS) == []
