"""Processes of a run that carry no mark: none is left either, though their supervisor was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, wait_until

DETACHES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if {forks} == 1 or os.fork() == 0:
        print(os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "600"], {{}})
    os._exit(0)
time.sleep(600)
"""
"""A rank that starts a process with an emptied environment in a session of its own. 2 forks: a daemon."""


def detaching(session: Client, forks: int) -> tuple[Run, int]:
    run = Run(session, rank_plan([sys.executable, "-c", DETACHES.format(forks=forks)]))
    run.wait_log("0.out", b"\n")
    pid = int(run.log("0.out"))
    wait_until(lambda: Path(f"/proc/{pid}/environ").read_bytes() == b"", "an emptied environment")
    return run, pid


def written_down(run: Run) -> dict[str, int]:
    path = Path(run.dir, "kin.json")
    return json.loads(path.read_text())["pids"] if path.exists() else {}


def kill_supervisor(session: Client, run: Run) -> None:
    session.ask("unfollow", follow=run.follow)  # else it would be revived at once
    os.kill(run.supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(run.supervisor), "the supervisor's end")


@pytest.mark.parametrize("forks", [1, 2])
def test_what_left_mark_and_parent_behind_is_swept_after_a_killed_supervisor(
    session: Client, forks: int
) -> None:
    run, pid = detaching(session, forks)
    wait_until(lambda: str(pid) in written_down(run), f"{pid} in kin.json")
    (rank,) = run.pids()
    kill_supervisor(session, run)
    os.kill(rank, signal.SIGKILL)
    assert run.stop(force=True)["gone"]
    assert not is_alive(pid)
    # Not from the answer: a supervisor that is revived for the stop may have ended all on its own before it.
    told = [json.loads(line) for line in Path(run.dir, "events.jsonl").read_text().splitlines()]
    swept = [process["pid"] for event in told if event["ev"] == "swept" for process in event["processes"]]
    assert pid in swept


def test_below_a_rank_that_lives_it_need_not_have_been_written_down(session: Client) -> None:
    run, pid = detaching(session, 1)
    kill_supervisor(session, run)
    Path(run.dir, "kin.json").unlink(missing_ok=True)
    assert run.stop(grace=1.0)["gone"]
    assert not is_alive(pid)


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(session: Client) -> None:
    run, pid = detaching(session, 2)
    wait_until(lambda: str(pid) in written_down(run), f"{pid} in kin.json")
    kill_supervisor(session, run)
    os.kill(pid, signal.SIGKILL)
    path = Path(run.dir, "kin.json")
    value = json.loads(path.read_text())
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        value["pids"] = {str(bystander.pid): value["pids"][str(pid)]}  # as if it had got that number
        path.write_text(json.dumps(value))
        answer = run.stop(force=True)
        assert answer["gone"]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_shim_is_not_written_down(session: Client) -> None:
    """It ends a moment after the rank: a stop would call it swept."""
    run, pid = detaching(session, 1)
    (rank,) = run.pids()
    wait_until(lambda: {str(rank), str(pid)} <= set(written_down(run)), "rank and child in kin.json")
    assert str(run.event("rank_started")["pid"]) in written_down(run)
    shim = json.loads(Path(run.dir, "ranks/0.start.json").read_text())["shim_pid"]
    assert str(shim) not in written_down(run)
    assert run.stop(force=True)["gone"]
