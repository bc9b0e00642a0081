"""Ends that resist: what can't be killed, is dead already, ignores the signal, or is let go by its start."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, wait_until
from linked import node_plans, start_all


@pytest.fixture
def frozen() -> Iterator[Path]:
    """A freezer of version 1: what is in it sleeps uninterruptibly, and SIGKILL does not wake it."""
    group = Path("/sys/fs/cgroup/freezer", f"rankdeck-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no freezer of version 1 can be made here")
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "end of the thawed processes")
    group.rmdir()


def test_what_cannot_be_killed_is_named_and_not_waited_for(session: Client, frozen: Path) -> None:
    run = Run(session, rank_plan("exec sleep 600"))
    (pid,) = run.pids()
    (frozen / "cgroup.procs").write_text(str(pid))
    (frozen / "freezer.state").write_text("FROZEN")
    wait_until(lambda: (frozen / "freezer.state").read_text() == "FROZEN\n", "a frozen rank")
    answer = run.stop(limit=100.0, force=True)
    assert not answer["gone"]
    (left,) = answer["left"]
    assert (left["pid"], left["cmd"]) == (pid, "sleep 600")
    assert left["why"].startswith("state D")
    assert [process["pid"] for process in run.event("node_ended")["left"]] == [pid]


def test_a_zombie_of_a_parent_that_does_not_wait_has_ended(session: Client) -> None:
    program = "import os,time\nif os.fork() == 0: os._exit(0)\nprint('up', flush=True)\ntime.sleep(600)"
    run = Run(session, rank_plan([sys.executable, "-c", program]))
    run.wait_log("0.out", b"up")
    answer = run.stop(grace=30)
    assert (answer["gone"], answer["left"], answer["swept"]) == (True, [], [])


def test_sixteen_stubborn_ranks_on_two_nodes_are_signalled_at_once_and_killed_together(
    session: Client, tmp_path: Path
) -> None:
    """A rank fails, and nobody but the supervisors could tell the other node's."""
    stubborn = f"trap 'date +%s.%N > {tmp_path}/term.$RANK' TERM; echo ready; while :; do sleep 0.1; done"
    plans = node_plans(stubborn, stubborn)
    for plan in plans:
        first = plan["processes"][0]
        plan["world_size"], plan["stop"]["grace"], plan["processes"] = 16, 5.0, []
        for local in range(8):
            rank = 8 * plan["node_rank"] + local
            env = {**first["env"], "RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": "16"}
            plan["processes"].append({**first, "ranks": [rank], "local_ranks": [local], "env": env})
    head, other = start_all(session, plans)
    for run, numbers in ((head, range(8)), (other, range(8, 16))):
        for rank in numbers:
            run.wait_log(f"{rank}.out", b"ready")
    os.kill(next(e["pid"] for e in other.events("rank_started") if e["rank"] == 9), signal.SIGKILL)
    assert (head.end(), other.end()) == ("stopped", "failed")
    told = sorted(float(path.read_text()) for path in tmp_path.glob("term.*"))
    assert len(told) == 15
    ended = [*head.events("rank_ended"), *other.events("rank_ended")]
    assert {event["signal"] for event in ended} == {"KILL"}
    assert [event["rank"] for event in ended if not event["asked"]] == [9]
    stops = [run.event("stopping")["t"] for run in (head, other)]
    kills = [run.event("killing")["t"] for run in (head, other)]
    assert max(stops) - min(stops) < 2.0  # the signal goes out to all of a node's at that moment
    assert all(5.0 <= kill - stop < 10.0 for stop, kill in zip(stops, kills, strict=True))


def test_a_start_holds_no_channel_open(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable)
    began = time.monotonic()
    run = Run(client, rank_plan("sleep 600"))
    assert time.monotonic() - began < 20.0
    (pid,) = run.pids()
    os.kill(client.hello()["pid"], signal.SIGKILL)
    wait_until(lambda: client._over, "end of the session's output: nobody else holds its other end")
    assert is_alive(pid)
    assert is_alive(run.supervisor)
    os.kill(run.supervisor, signal.SIGHUP)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_alive(run.supervisor), "end of the run")
    assert '"signal":"TERM"' in Path(run.dir, "events.jsonl").read_text()
