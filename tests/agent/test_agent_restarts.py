"""Launchers that start their ranks again, and deal out their numbers."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, wait_until
from test_agent_torchrun import launcher_plan

pytestmark = pytest.mark.timeout(180)

RESTARTING = """
import os, signal, subprocess, sys, time
args, deals, most = sys.argv[4:], eval(sys.argv[1]), int(sys.argv[2])
hold = sys.argv[3]
for attempt, ranks in enumerate(deals):
    workers = []
    for local, rank in enumerate(ranks):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(local), WORLD_SIZE="4")
        env["TORCHELASTIC_RESTART_COUNT"] = str(min(attempt, most))
        workers.append(subprocess.Popen(args, env=env, start_new_session=True))
    if ranks and attempt == int(hold):
        time.sleep(0.02)  # at once, before anything but the shell has come up
        for worker in workers:
            worker.kill()
    while True:
        time.sleep(0.05)
        status = [worker.poll() for worker in workers]
        if any(status) or None not in status:
            break
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    status = [worker.wait() for worker in workers]
    if not any(status):
        sys.exit(0)
print("given up", file=sys.stderr)
sys.exit(1)
"""
"""A stand-in for torchrun: `DEALS MOST HOLD program...`; HOLD is an attempt that it ends at once itself."""


def restarting(
    program: str,
    deals: list[list[int]],
    *,
    restarts: int = 3,
    dealt: bool = True,
    hold: int = -1,
    **more: Any,
) -> dict[str, Any]:
    """Two of four ranks on this node, whichever they are."""
    launcher = [sys.executable, "-c", RESTARTING, repr(deals), str(restarts), str(hold)]
    plan = launcher_plan(program, launcher=launcher, world_size=4, **more)
    plan["processes"][0].update(fixed_ranks=not dealt, restarts=restarts, fill=False)
    return plan


def attempts(run: Run, ev: str) -> list[tuple[int, int, int]]:
    return sorted((e["attempt"], e["local_rank"], e["rank"]) for e in run.events(ev))


def test_the_second_attempt_has_other_ranks_and_its_own_logs(session: Client, tmp_path: Path) -> None:
    both = f"touch {tmp_path}/$RANK; until [ -e {tmp_path}/2 -a -e {tmp_path}/3 ]; do sleep 0.05; done"
    program = (
        f"echo $RANK at $LOCAL_RANK; [ $RANK -lt 2 ] || {{ {both}; [ $RANK = 2 ] && exit 5; sleep 600; }}"
    )
    run = Run(session, restarting(program, [[3, 2], [1, 0]]))
    assert run.end() == "succeeded"
    assert attempts(run, "rank_started") == [(1, 0, 3), (1, 1, 2), (2, 0, 1), (2, 1, 0)]
    first = run.event("rank_ended", rank=2)
    assert (first["exit_code"], first["attempt"], first["may_restart"]) == (5, 1, True)
    other = run.event("rank_ended", rank=3)
    assert (other["signal"], other["attempt"], other["may_restart"]) == ("TERM", 1, True)
    began = run.event("attempt_started")
    assert (began["attempt"], began["rank"], began["process"]) == (2, 2, 0)
    assert run.events("stopping") == []
    assert run.log("3.out") == b"3 at 0\n"
    assert run.log("2.out") == b"2 at 1\n"
    assert run.log("1.2.out") == b"1 at 0\n"
    assert run.log("0.2.out") == b"0 at 1\n"
    logs = sorted(path.name for path in Path(run.dir, "logs").glob("rank-*.out"))
    assert logs == [
        "rank-00000.attempt-2.out",
        "rank-00001.attempt-2.out",
        "rank-00002.out",
        "rank-00003.out",
    ]
    assert run.event("rank_ended", rank=1)["out_bytes"] == 7


def test_known_ranks_may_be_started_again_too(session: Client, tmp_path: Path) -> None:
    """One node with max_restarts: which rank is where does not change."""
    program = f"echo up; [ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; exit 5; }}"
    run = Run(session, restarting(program, [[0, 1], [0, 1]], dealt=False))
    assert run.end() == "succeeded"
    assert {e["attempt"] for e in run.events("rank_started")} == {1, 2}
    assert run.log("0.2.out") == b"up\n"


def test_the_last_failure_ends_the_node(session: Client) -> None:
    program = "[ $LOCAL_RANK = 1 ] && exit 5; sleep 600"
    run = Run(session, restarting(program, [[2, 3]] * 3, restarts=2))
    assert run.end() == "failed"
    ended = [e for e in run.events("rank_ended") if e["exit_code"] == 5]
    assert [e.get("may_restart", False) for e in ended] == [True, True, False]
    assert run.event("stopping")["rank"] == 3
    assert [e["attempt"] for e in run.events("attempt_started")] == [2, 3]
    pids = [e["pid"] for e in run.events("rank_started")]
    assert not any(is_alive(pid) for pid in pids)


def test_an_attempt_that_ended_before_its_shims_had_come_up_counts(session: Client) -> None:
    run = Run(session, restarting("echo up", [[0, 1], [2, 3]], hold=0))
    assert run.end() == "succeeded"
    assert attempts(run, "rank_started") == [(2, 0, 2), (2, 1, 3)]
    assert run.log("2.2.out") == b"up\n"


def test_a_program_that_is_not_there_in_each_attempt(session: Client) -> None:
    plan = restarting("true", [[0, 1]] * 2, restarts=1)
    plan["processes"][0]["program"] = ["/no/such/program"]
    run = Run(session, plan)
    assert run.end() == "failed"
    assert "no such file" in run.event("start_failed", attempt=2)["message"]


def test_a_stop_of_a_later_attempt(session: Client, tmp_path: Path) -> None:
    program = f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; exit 5; }}; echo up; sleep 600"
    run = Run(session, restarting(program, [[1, 0], [0, 1], [0, 1]]))
    for rank in (0, 1):
        run.wait_log(f"{rank}.2.out", b"up")
    assert run.stop()["gone"]
    assert run.end() == "stopped"
    assert all(e["asked"] for e in run.events("rank_ended") if e["attempt"] == 2)


def test_a_killed_supervisor_costs_no_attempt(session: Client, tmp_path: Path) -> None:
    """It is killed in the first attempt, and another one comes only in the second."""
    program = (
        f"echo up; if [ -e {tmp_path}/again ]; then until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 0;"
        f" fi; until [ -e {tmp_path}/fail ]; do sleep 0.05; done; touch {tmp_path}/again; exit 5"
    )
    plan = restarting(program, [[3, 2], [1, 0]])
    run = Run(session, plan)
    for rank in (2, 3):
        run.wait_log(f"{rank}.out", b"up")
    os.kill(run.supervisor, signal.SIGKILL)
    (tmp_path / "fail").write_text("")
    run.event("supervisor_resumed")
    for rank in (0, 1):
        run.wait_log(f"{rank}.2.out", b"up")
    (tmp_path / "go").write_text("")
    assert run.end() in ("succeeded", "failed")  # its launcher's exit status died with the first supervisor
    assert attempts(run, "rank_started") == [(1, 0, 3), (1, 1, 2), (2, 0, 1), (2, 1, 0)]
    assert {(e["attempt"], e["rank"]): e["exit_code"] for e in run.events("rank_ended")}[(2, 0)] == 0
    assert 5 in {e["exit_code"] for e in run.events("rank_ended") if e["attempt"] == 1}


def test_followers_may_ask_for_an_attempts_logs(session: Client, tmp_path: Path) -> None:
    program = f"[ -e {tmp_path}/again ] && echo second; touch {tmp_path}/again; exit $((LOCAL_RANK))"
    run = Run(session, restarting(program, [[0, 1], [0, 1]], restarts=1), logs=[])
    run.end()
    follow = session.send("follow", dir=run.dir, since=0, logs=["1.2.out"], offsets={"1.2.out": 3})
    session.reply(follow)
    assert session.log(follow, "1.2.out", 3) == b"ond\n"
    read = session.send("read", dir=run.dir, name="1.2.out", offset=0, length=100)
    assert session.reply(read)[1] == b"second\n"


def test_plain_ranks_are_counted_once(session: Client) -> None:
    run = Run(session, rank_plan("true"))
    assert run.end() == "succeeded"
    assert "attempt" not in run.event("rank_started")
    assert not list(Path(run.dir, "ranks").glob("*.starts"))
    wait_until(lambda: Path(run.dir, "ranks/0.exit.json").exists(), "exit record")
    assert "attempt" not in json.loads(Path(run.dir, "ranks/0.exit.json").read_text())
