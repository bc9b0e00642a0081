"""torchrun with restarts over two nodes: it deals out the ranks, and starts all of them again."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rankdeck_profiles.model import Profile, StopPolicy
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.states import RankState, RunState
from runs import waiting
from runs.waiting import finished, launched, wait_for

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(400),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, once = dist.get_rank(), {once!r}
value = torch.tensor([float(rank + 1)])
dist.all_reduce(value)
print("sum", value.item(), "rank", rank, "local", os.environ["LOCAL_RANK"], flush=True)
dist.barrier()
failed = os.path.exists(once)
dist.barrier()
if rank == 3 and ({always} or not failed):
    open(once, "w").close()
    sys.exit("RuntimeError: rank 3 has lost its shard")
if not failed or {always}:
    time.sleep(600)
dist.destroy_process_group()
"""


@pytest.fixture
def torchrun(tmp_path, monkeypatch):
    """Makes profiles in which rank 3 fails, in the first attempt or always."""
    monkeypatch.setattr(waiting, "LIMIT", 180.0)  # four processes import torch, twice

    def make(restarts: int, always: bool = False) -> Profile:
        path = tmp_path / "train.py"
        path.write_text(TRAIN.format(once=str(tmp_path / "failed"), always=always))
        return Profile(
            name="again",
            framework="torchrun",
            script=str(path),
            workdir=str(tmp_path),
            python=sys.executable,
            options={"max_restarts": restarts},
            stop=StopPolicy(grace=10.0),
        )

    return make


def test_the_second_attempt_succeeds(engine, home, pool, torchrun):
    live = engine.attach(launched(engine, torchrun(1), pool))
    before = live.snapshot()
    assert {rank.node for rank in before.ranks} <= {"", "127.0.0.1", "127.0.0.2"}
    assert (before.attempt, before.attempts) == (1, 2)
    snapshot = finished(live)
    assert snapshot.state is RunState.SUCCEEDED, json.dumps(snapshot.to_json(), indent=1)
    assert snapshot.exit_status == 0
    assert snapshot.cause is None
    assert (snapshot.attempt, snapshot.attempts) == (2, 2)
    (first,) = snapshot.earlier_attempts
    assert (first.attempt, first.cause.rank, first.cause.kind) == (1, 3, CauseKind.EXIT)
    record = home.find(live.run_id)
    assert sorted(node.ranks for node in snapshot.nodes) == [(0, 1), (2, 3)]
    for rank in snapshot.ranks:
        assert rank.state is RankState.SUCCEEDED
        assert rank.attempt == 2
        assert rank.rank in next(node for node in snapshot.nodes if node.name == rank.node).ranks
        (past,) = rank.earlier
        assert past.state is (RankState.FAILED if rank.rank == 3 else RankState.STOPPED)
        for attempt in (1, 2):
            said = record.log(rank.rank, "out", attempt).path.read_text()
            assert said == f"sum 10.0 rank {rank.rank} local {rank.local_rank}\n"
        assert rank.out_bytes == len(said)
        assert Path(record.log_path(f"rank-{rank.rank:05d}.attempt-2.times")).exists()
    assert "lost its shard" in record.log(3, "err").path.read_text()
    assert "lost its shard" not in record.log(3, "err", 2).path.read_text()
    assert record.snapshot() == snapshot
    shown = json.loads(json.dumps(snapshot.to_json()))
    assert (shown["attempt"], shown["attempts"]) == (2, 2)
    assert shown["earlier_attempts"][0]["cause"]["rank"] == 3
    assert shown["ranks"][3]["earlier"][0]["exit_code"] == 1


def test_a_run_that_is_out_of_attempts_has_failed(engine, home, pool, torchrun):
    live = engine.attach(launched(engine, torchrun(1, always=True), pool))
    snapshot = finished(live)
    assert snapshot.state is RunState.FAILED
    assert snapshot.attempt == 2
    assert (snapshot.cause.rank, snapshot.cause.kind) == (3, CauseKind.EXIT)
    assert snapshot.cause.message == "RuntimeError: rank 3 has lost its shard"
    assert snapshot.ranks[3].state is RankState.FAILED
    assert home.find(live.run_id).snapshot() == snapshot


def test_a_stop_in_the_second_attempt(engine, pool, torchrun):
    live = engine.attach(launched(engine, torchrun(3, always=True), pool))
    wait_for(live, lambda s: s.attempt == 2 and s.state is RunState.RUNNING, "second attempt")
    assert engine.stop(live.run_id).result(waiting.LIMIT).gone
    snapshot = live.snapshot()
    assert snapshot.state is RunState.STOPPED
    assert snapshot.cause is None


def test_one_node_keeps_its_ranks(engine, home, pool, tmp_path, torchrun):
    script = tmp_path / "once.py"
    script.write_text(
        "import os, sys\n"
        f"once = {str(tmp_path / 'once')!r}\n"
        "print('count', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
        "if os.environ['RANK'] == '0' and not os.path.exists(once):\n"
        "    open(once, 'w').close()\n"
        "    sys.exit(4)\n"
    )
    profile = replace(torchrun(2), script=str(script), nodes=1)
    live = engine.attach(launched(engine, profile, pool))
    assert {rank.node for rank in live.snapshot().ranks} == {"127.0.0.1"}
    snapshot = finished(live)
    assert snapshot.state is RunState.SUCCEEDED
    assert (snapshot.attempt, snapshot.attempts) == (2, 3)
    assert snapshot.earlier_attempts[0].cause.rank == 0
    record = home.find(live.run_id)
    assert record.log(0, "out").path.read_text() == "count 0\n"
    assert record.log(0, "out", 2).path.read_text() == "count 1\n"
