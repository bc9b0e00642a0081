"""How real runs on this machine end, and what is said of it."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.engine import Engine
from rankdeck_runs.states import NodeState
from runs.waiting import LIMIT


def test_a_launch_that_is_left_in_its_midst_names_the_reason(home, engine, program, pool):
    leaving = Engine(home)
    prepared = leaving.prepare(program("time.sleep(3600)\n"), pool).result(LIMIT)

    def leave(line):
        if not line.startswith("starting "):
            return
        threading.Thread(target=leaving.close).start()
        closing = False
        while not closing:
            with leaving._network._lock:
                closing = leaving._network._closing

    launching = leaving.launch(prepared, leave)
    with pytest.raises(CancelledError):
        launching.result(LIMIT)
    snapshot = home.find("last").snapshot()
    assert (snapshot.cause.kind, snapshot.cause.node) == (CauseKind.NODE, "127.0.0.1")
    assert "cut short" in snapshot.cause.message
    assert {node.state for node in snapshot.nodes} == {NodeState.FAILED}
