"""Worlds that are not the plan's are ended, with what was seen and what was expected."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, wait_until
from linked import WAIT, node_plans, start_all
from test_agent_mpirun import join, plans
from test_agent_torchrun import launcher_plan

pytestmark = pytest.mark.timeout(180)

STARTS = """
import os, subprocess, sys
workers = []
for number, env in enumerate(eval(sys.argv[1])):
    workers.append(subprocess.Popen(sys.argv[2:], env=dict(os.environ, **env), start_new_session=True))
sys.exit(any([worker.wait() for worker in workers]))
"""
"""A launcher that gives each worker these variables."""


def starting(*workers: dict[str, str], program: str = "sleep 600", **changes: Any) -> dict[str, Any]:
    launcher = [sys.executable, "-c", STARTS, repr(list(workers))]
    return launcher_plan(program, launcher=launcher, **changes)


def who(rank: int, local: int, world: int = 2, **more: str) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(world), **more}


def ended_for(run: Run, said: str) -> None:
    """The run failed at once, because of this, and nothing is left."""
    assert run.end() == "failed"
    failed = run.event("start_failed")
    assert failed["rank"] is None
    assert said in failed["message"]
    assert run.event("stopping")["why"] == "census"
    assert not any(is_alive(event["pid"]) for event in run.events("rank_started"))


def test_ranks_that_are_worlds_of_their_own(session: Client) -> None:
    run = Run(session, starting(who(0, 0, 1), who(0, 0, 1)))
    said = (
        "this process is rank 0 of 1 to its launcher; the plan has 2 ranks: each rank is a world of its own"
    )
    ended_for(run, said)


def test_a_smaller_world(session: Client) -> None:
    run = Run(session, starting(who(0, 0, 3), who(1, 1, 3), world_size=4))
    ended_for(run, "of 3 to its launcher; the plan has 4 ranks")


def test_an_mpirun_of_worlds_of_one(session: Client) -> None:
    joined = Run(session, plans("sleep 600")[1])
    done = join(joined, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    assert "each rank is a world of its own, as where two MPIs are mixed" in done.stderr
    assert joined.end() == "failed"


def test_a_rank_of_another_node(session: Client) -> None:
    run = Run(session, starting(who(0, 0, 4), who(2, 1, 4), world_size=4))
    ended_for(run, "rank 2 (local rank 1) was started on node n1, where the plan has ranks [0, 1]")


def test_one_rank_twice(session: Client) -> None:
    run = Run(session, starting(who(0, 0), who(0, 0)))
    ended_for(run, "two processes say that they are rank 0 of 2; the plan has 2 ranks, each once")


def test_fewer_ranks_than_planned(session: Client) -> None:
    run = Run(session, starting(who(0, 0), gather_limit=1.0))
    said = (
        "1 of the 2 ranks planned for this node have come, and no other within 1 s:"
        " the launcher did not start local ranks [1]"
    )
    ended_for(run, said)


def test_fewer_ranks_than_planned_in_a_later_attempt(session: Client) -> None:
    again = (
        "import os, subprocess, sys\n"
        "for attempt, ranks in (('0', '01'), ('1', '0')):\n"
        "    env = [dict(os.environ, RANK=r, LOCAL_RANK=r, WORLD_SIZE='2',"
        " TORCHELASTIC_RESTART_COUNT=attempt) for r in ranks]\n"
        "    for worker in [subprocess.Popen(sys.argv[1:], env=e, start_new_session=True) for e in env]:\n"
        "        worker.wait()\n"
    )
    program = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec sleep 600; exit 1"
    plan = launcher_plan(program, launcher=[sys.executable, "-c", again], gather_limit=2.0)
    plan["processes"][0]["restarts"] = 1
    run = Run(session, plan)
    ended_for(run, "1 of the 2 ranks planned for this node have come, and no other within 2 s")
    assert run.event("attempt_started")["attempt"] == 2


def test_a_node_whose_launcher_starts_no_rank_at_all(session: Client) -> None:
    made = node_plans(WAIT, WAIT, run="none", gather_limit=1.0)
    made[1]["processes"][0]["launcher"] = ["sh", "-c", "sleep 600"]
    head, second = start_all(session, made)
    said = "ranks of other nodes have begun, and none here within 4 s: the launcher started none"
    assert second.event("start_failed")["message"] == said
    assert (head.end(), second.end()) == ("stopped", "failed")
    assert head.event("stopping")["message"] == "n2: its ranks are not those of the plan"


def test_fewer_ranks_of_an_mpirun_than_planned(session: Client) -> None:
    joined = Run(session, {**plans("sleep 600")[1], "gather_limit": 1.0})
    script = Path(joined.dir, "join")
    variables = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    pid = os.spawnve(
        os.P_NOWAIT, "/bin/sh", ["sh", str(script), str(script.parent.parent)], {**os.environ, **variables}
    )
    assert joined.end() == "failed"
    os.waitpid(pid, 0)
    assert "1 of the 2 ranks planned for this node have come" in joined.event("start_failed")["message"]
    assert not any(is_alive(event["pid"]) for event in joined.events("rank_started"))


def test_all_come_in_time(session: Client, tmp_path: Path) -> None:
    late = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    run = Run(session, starting(who(0, 0), who(1, 1), program=late, gather_limit=2.0))
    run.pids()
    wait_until(lambda: run.events("rank_started")[-1]["t"] + 3.0 < __import__("time").time(), "limit to pass")
    (tmp_path / "go").write_text("")
    assert run.end() == "succeeded"
    assert run.events("start_failed") == []


def test_two_ranks_on_one_gpu(session: Client) -> None:
    """A login's start-up file sets CUDA_VISIBLE_DEVICES, and nobody has asked for that."""
    one = {"CUDA_VISIBLE_DEVICES": "5"}
    run = Run(session, starting(who(0, 0, **one), who(1, 1, **one), gpus=8))
    ended_for(run, "would both use GPU 5: CUDA_VISIBLE_DEVICES=5 comes from the environment of node n1")


def test_two_ranks_on_one_gpu_without_a_launcher(session: Client) -> None:
    plan = rank_plan("sleep 600", "sleep 600", gpus=2, setup=["export CUDA_VISIBLE_DEVICES=GPU-8f2c"])
    ended_for(Run(session, plan), "would both use GPU GPU-8f2c")


@pytest.mark.parametrize(
    ("devices", "changes"),
    [
        (("0,1", "0,1"), {}),  # each takes its own by its local number
        (("0", "1"), {}),
        (("0", "0"), {"gpus": 1}),  # more ranks than GPUs: that was asked for
        (("0", "0"), {"gpus": 0}),
        (("", ""), {}),
        (("-1", "-1"), {}),
        (("0", "0"), {"named": True}),
        (("0", "0"), {"gloo": True}),
    ],
)
def test_gpus_that_are_shared_on_purpose_or_not_at_all(
    session: Client, devices: tuple[str, str], changes: dict[str, Any]
) -> None:
    workers = [who(rank, rank, CUDA_VISIBLE_DEVICES=value) for rank, value in enumerate(devices)]
    plan = starting(*workers, program="true", gpus=changes.get("gpus", 2))
    if changes.get("named"):
        plan["processes"][0]["env"]["CUDA_VISIBLE_DEVICES"] = "0"
    if changes.get("gloo"):
        plan["processes"][0]["env"]["RANKDECK_COMM_BACKEND"] = "gloo"
    run = Run(session, plan)
    assert run.end() == "succeeded", run.events()
