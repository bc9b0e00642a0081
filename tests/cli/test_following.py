"""When following a run from the command line ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankdeck_runs.states import NodeState, NodeStatus, RunSnapshot, RunState
from rankdeck_tui.cli import follow
from rankdeck_tui.cli.follow import End
from rankdeck_tui.cli.interrupts import Choice, Interrupts
from rankdeck_tui.cli.views import RunView


class Told:
    """A live run and its engine in one, whose state is what the test says."""

    asker = None
    unwritten = ""
    proven = 0

    def __init__(self, snapshot: RunSnapshot) -> None:
        self.told = snapshot

    def attach(self, run_id: str) -> Told:
        return self

    def watch(self, ranks: Any) -> None: ...

    def wait(self, version: int, timeout: float) -> int:
        time.sleep(0.01)
        return version

    def snapshot(self) -> RunSnapshot:
        return self.told


class NoView:
    def show(self, snapshot: RunSnapshot) -> int:
        return 0

    def finish(self, snapshot: RunSnapshot) -> None: ...


def told(state: RunState, *nodes: NodeState) -> RunSnapshot:
    statuses = tuple(NodeStatus(f"n{i}", i, f"10.0.0.{i}", node) for i, node in enumerate(nodes))
    return RunSnapshot("r", state, "p", "pytorch", "pool", "ssh", len(nodes), statuses)


def followed(live: Told) -> End:
    with Interrupts() as interrupts:
        end, _ = follow.follow(live, "r", NoView(), interrupts, lambda: Choice.CONTINUE)  # type: ignore[arg-type]
    return end


def test_dead_nodes_are_not_waited_for_once_all_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LOST_SECONDS", 0.2)
    live = Told(told(RunState.LOST, NodeState.FAILED, NodeState.LOST))
    assert followed(live) is End.NODES_LOST


def test_where_all_nodes_are_out_of_reach_it_may_be_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LOST_SECONDS", 0.05)
    monkeypatch.setattr(follow, "SETTLE_SECONDS", 0.05)
    live = Told(told(RunState.LOST, NodeState.LOST, NodeState.LOST))

    def come_back() -> None:
        live.told = told(RunState.SUCCEEDED, NodeState.SUCCEEDED, NodeState.SUCCEEDED)

    later = threading.Timer(0.6, come_back)
    later.start()
    began = time.monotonic()
    assert followed(live) is End.RUN_ENDED
    assert time.monotonic() - began >= 0.5
    later.join()


def test_a_node_that_is_back_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also the second time that it goes, for the same reason."""
    view = RunView(tmp_path)
    fine = told(RunState.RUNNING, NodeState.RUNNING, NodeState.RUNNING)
    gone = replace(
        fine,
        nodes=(replace(fine.nodes[0], state=NodeState.LOST, message="nothing came from it"), fine.nodes[1]),
    )
    for snapshot in (fine, gone, gone, fine, fine, gone, fine):
        view.show(snapshot)
    lost, back = "n0: nothing came from it", "n0: connected again"
    assert capsys.readouterr().err.splitlines() == [lost, back, lost, back]


def test_a_fabric_that_is_not_used_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    live = Told(
        replace(told(RunState.RUNNING, NodeState.RUNNING), fabric_unused="NCCL of rank 0 uses sockets")
    )
    later = threading.Timer(0.3, lambda: setattr(live, "told", replace(live.told, complete=True)))
    later.start()
    assert followed(live) is End.RUN_ENDED
    later.join()
    assert capsys.readouterr().err == "warning: NCCL of rank 0 uses sockets\n"
