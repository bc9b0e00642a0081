"""How real runs on this machine end, and what is said of it."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from rankdeck_profiles.model import OnRankFailure, StopPolicy
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.engine import Engine
from rankdeck_runs.states import NodeState, RankState, RunState
from runs.waiting import LIMIT, finished, launched


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


GLOO = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={patience}))
for step in range(100):
    if RANK == 2 and step == 2:
        {trouble}
    dist.all_reduce(torch.ones(4))
    time.sleep(0.1)
"""


def test_the_rank_that_raised_is_named_and_the_others_are_its_followers(engine, home, program, pool):
    source = GLOO.format(patience=60, trouble="{}['shard-00317']")
    policy = StopPolicy(grace=10.0, on_rank_failure=OnRankFailure.KEEP)
    snapshot = finished(engine.attach(launched(engine, program(source, stop=policy), pool)))
    cause = snapshot.cause
    assert (snapshot.state, cause.rank, cause.node) == (RunState.FAILED, 2, "127.0.0.2")
    assert (cause.message, cause.reason) == ("KeyError: 'shard-00317'", "exception")
    assert {rank for group in cause.followers for rank in group.ranks} == {0, 1, 3}
    assert {group.said for group in cause.followers} == {"it lost the connection to another rank"}
    proof = cause.proofs[0]
    log = home.find("last").log_path(proof.log).read_bytes()
    assert log[proof.offset :].split(b"\n")[0].endswith(b"KeyError: 'shard-00317'")
    assert home.find("last").snapshot().to_json()["cause"] == cause.to_json()


def test_a_rank_that_hangs_after_its_error_is_named_above_those_that_waited(engine, program, pool):
    """The others die of time-outs, one of them first; the culprit is only stopped, and never failed."""
    trouble = (
        "import traceback\n"
        "        try: {}['shard-00317']\n"
        "        except KeyError: traceback.print_exc(); time.sleep(3600)"
    )
    snapshot = finished(
        engine.attach(launched(engine, program(GLOO.format(patience=5, trouble=trouble)), pool))
    )
    cause = snapshot.cause
    assert (cause.rank, cause.message) == (2, "KeyError: 'shard-00317'")
    assert snapshot.ranks[2].state is RankState.STOPPED
    assert snapshot.state is RunState.FAILED
    assert any("waited in vain" in group.said for group in cause.followers)
