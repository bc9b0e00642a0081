"""Stopping: signal, grace, SIGKILL, sweep, proof; and nobody else's process touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, shim_of

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.2; done"


def test_stop_sends_the_signal_and_proves_the_end(session: Client) -> None:
    run = Run(
        session,
        rank_plan("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "sleep 600"),
    )
    pids = run.pids()
    run.wait_log("0.out", b"ready")
    answer = run.stop()
    assert answer["gone"] is True
    assert (answer["left"], answer["state"]) == ([], "stopped")
    assert run.end() == "stopped"
    assert run.log("0.out") == b"ready\nsaved\n"
    assert run.event("stopping")["why"] == "asked"
    ended = {e["rank"]: e for e in run.events("rank_ended")}
    assert (ended[0]["exit_code"], ended[0]["asked"]) == (0, True)
    assert (ended[1]["signal"], ended[1]["asked"]) == ("TERM", True)
    assert not any(is_alive(pid) for pid in pids)


def test_a_rank_that_ignores_the_signal_is_killed_after_the_grace(session: Client) -> None:
    run = Run(session, rank_plan(STUBBORN))
    pid = run.pids()[0]
    run.wait_log("0.out", b"ready")
    number = session.send("stop", dir=run.dir, signal="TERM", grace=2.5, force=False)
    assert session.reply(number)[0]["gone"]
    told = session.of(number, "stopping")
    assert told[0]["left"] == [{"rank": 0, "pid": pid}]
    assert 0 < told[0]["grace_left"] <= 2.5
    assert run.end() == "stopped"
    stopping, killing = run.event("stopping"), run.event("killing")
    assert killing["t"] - stopping["t"] >= 2.4
    assert pid in killing["pids"]
    ended = run.event("rank_ended")
    assert (ended["signal"], ended["exit_code"], ended["asked"]) == ("KILL", None, True)


def test_force_kills_at_once(session: Client) -> None:
    run = Run(session, rank_plan(STUBBORN))
    run.wait_log("0.out", b"ready")
    began = time.monotonic()
    assert run.stop(force=True)["gone"]
    assert time.monotonic() - began < 15
    assert run.event("rank_ended")["signal"] == "KILL"


def test_a_second_stop_can_shorten_the_first(session: Client) -> None:
    run = Run(session, rank_plan(STUBBORN))
    run.wait_log("0.out", b"ready")
    first = session.send("stop", dir=run.dir, signal="TERM", grace=600, force=False)
    session.wait_for(lambda: session.of(first, "stopping"), "progress")
    assert run.stop(force=True)["gone"]
    assert session.reply(first)[0]["gone"]
    assert run.event("hurried")["grace"] == 0.0


def test_a_program_under_a_wrapper_script_keeps_its_grace(session: Client, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    inner = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        f"    time.sleep(3); open({str(saved)!r}, 'w'); sys.exit(0)\n"
        "signal.signal(15, save); print('ready', flush=True)\n"
        "while 1: time.sleep(0.1)"
    )
    # the shell dies of the signal at once; the trainer below it, in the same group, saves its work
    run = Run(session, rank_plan(["sh", "-c", '"$0" -c "$1"; true', sys.executable, inner]))
    run.wait_log("0.out", b"ready")
    assert run.stop(grace=60)["gone"]
    assert saved.exists()
    assert run.events("killing") == []


def test_a_grandchild_in_another_session_is_swept(session: Client) -> None:
    program = (
        "import os,signal,time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True)\n"
        "    if os.fork() == 0: pass\n"
        "    while True: time.sleep(1)\n"
        "time.sleep(600)"
    )
    run = Run(session, rank_plan([sys.executable, "-c", program]))
    run.wait_log("0.out", b"\n")
    stray = int(run.log("0.out"))
    answer = run.stop(grace=30)
    assert answer["gone"]
    assert stray in [process["pid"] for process in answer["swept"]]
    assert not is_alive(stray)
    assert run.end() == "stopped"
    assert stray in [process["pid"] for process in run.event("swept")["processes"]]


def test_workers_that_outlive_their_killed_rank_are_counted_to_it(session: Client) -> None:
    """Data loaders in sessions of their own that ignore SIGTERM; nobody asked for a stop."""
    program = (
        "import os,signal,time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); signal.signal(15, signal.SIG_IGN); os.write(1, b'%d\\n' % os.getpid())\n"
        "        time.sleep(600)\n"
        "time.sleep(600)"
    )
    run = Run(session, rank_plan([sys.executable, "-c", program]))
    (pid,) = run.pids()
    session.wait_for(lambda: run.log("0.out").count(b"\n") == 4, "four workers")
    os.kill(pid, signal.SIGKILL)
    assert run.end() == "failed"
    workers = {int(line) for line in run.log("0.out").split()}
    found = run.event("swept")["processes"]
    assert {process["pid"] for process in found} == workers
    assert {process["rank"] for process in found} == {0}
    assert not any(map(is_alive, workers))


def test_what_a_finished_rank_leaves_behind_is_swept(session: Client) -> None:
    until_it_sleeps = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.05; done'
    run = Run(session, rank_plan(f"setsid sleep 600 & echo $!; {until_it_sleeps}"))
    assert run.end() == "succeeded"
    stray = int(run.log("0.out"))
    assert not is_alive(stray)
    assert "sleep 600" in [process["cmd"] for process in run.event("swept")["processes"]]


def test_another_run_and_foreign_processes_live_on(session: Client) -> None:
    foreign = subprocess.Popen(["sleep", "600.25"])
    try:
        one = Run(session, rank_plan(["sleep", "600.25"], run="one"))
        two = Run(session, rank_plan(["sleep", "600.25"], run="two"))
        other_node = Run(session, rank_plan(["sleep", "600.25"], run="one", node_rank=1))
        alive = two.pids() + other_node.pids()
        one.pids()
        assert one.stop()["gone"]
        assert all(is_alive(pid) for pid in [*alive, foreign.pid])
        assert two.stop()["gone"]
        assert other_node.stop()["gone"]
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_run_of_the_same_name_from_elsewhere_lives_on(
    connect: Callable[..., Client], tmp_path: Path
) -> None:
    client = connect(python=sys.executable)
    one = Run(client, rank_plan("sleep 600"))
    elsewhere = connect(folder=tmp_path / "elsewhere", python=sys.executable)
    two = Run(elsewhere, rank_plan("sleep 600"))
    pid = two.pids()[0]
    one.pids()
    assert one.stop()["gone"]
    assert is_alive(pid)
    (tmp_path / "alias").symlink_to(tmp_path / "elsewhere")
    assert elsewhere.ask("stop", dir=two.dir.replace("elsewhere", "alias"))["gone"]
    assert not is_alive(pid)


def test_stop_of_a_run_that_has_ended(session: Client) -> None:
    run = Run(session, rank_plan("true"))
    assert run.end() == "succeeded"
    answer = run.stop()
    assert (answer["gone"], answer["left"], answer["swept"], answer["state"]) == (True, [], [], "succeeded")


def test_signal_reaches_the_named_ranks(session: Client) -> None:
    program = "trap 'echo got' USR1; echo ready; while :; do sleep 0.1; done"
    run = Run(session, rank_plan(program, program))
    for name in ("0.out", "1.out"):
        run.wait_log(name, b"ready")
    assert session.ask("signal", dir=run.dir, ranks=[1], signal="USR1")["sent"] == [1]
    run.wait_log("1.out", b"got")
    assert session.ask("signal", dir=run.dir, ranks=None, signal="SIGUSR1")["sent"] == [0, 1]
    run.wait_log("0.out", b"got")
    assert run.log("0.out").count(b"got") == 1
    assert run.stop(force=True)["gone"]


def test_a_signal_to_the_shim_reaches_the_program(session: Client) -> None:
    run = Run(session, rank_plan("trap 'echo got; exit 4' INT; echo ready; while :; do sleep 0.1; done"))
    run.wait_log("0.out", b"ready")
    os.kill(shim_of(run, 0), signal.SIGINT)
    assert run.end() == "failed"
    assert run.log("0.out") == b"ready\ngot\n"
    assert run.event("rank_ended")["exit_code"] == 4


def test_a_killed_shim_costs_nothing(session: Client) -> None:
    run = Run(session, rank_plan("echo ready; sleep 1; exit 6"))
    run.wait_log("0.out", b"ready")
    os.kill(shim_of(run, 0), signal.SIGKILL)
    assert run.end() == "failed"
    assert run.event("rank_ended")["exit_code"] == 6
    assert '"exit_code":6' in Path(run.dir, "ranks/0.exit.json").read_text()


def test_the_session_may_go_while_it_stops(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable)
    run = Run(client, rank_plan("trap 'sleep 1; exit 0' TERM; echo ready; while :; do sleep 0.1; done"))
    run.wait_log("0.out", b"ready")
    number = client.send("stop", dir=run.dir, signal="TERM", grace=60, force=False)
    client.wait_for(lambda: client.of(number, "stopping"), "progress")
    client.process.kill()
    other = connect(python=sys.executable)
    follow = other.send("follow", dir=run.dir, since=0, logs=[], offsets={}, samples=0)
    assert other.reply(follow)[0]["state"] == "stopped"
    assert other.wait_event(follow, "rank_ended")["exit_code"] == 0


def test_what_a_failed_rank_left_in_its_group_does_not_hold_up_the_stop(session: Client) -> None:
    plan = rank_plan("sleep 600 & exit 3", "sleep 600")
    plan["stop"]["grace"] = 600.0
    run = Run(session, plan)
    assert run.end() == "failed"
    assert run.event("stopping")["rank"] == 0


def test_ranks_whose_run_folder_is_gone_are_ended(session: Client) -> None:
    """Cleaners of /tmp and /var/tmp take folders away from under what runs."""
    run = Run(session, rank_plan("trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done", STUBBORN))
    pids = run.pids()
    for name in ("0.out", "1.out"):
        run.wait_log(name, b"ready")
    supervisor = run.event("supervisor_started")["pid"]
    shutil.rmtree(run.dir)
    number = session.send("stop", dir=run.dir, signal="TERM", grace=1.5, force=False)
    answer = session.reply(number)[0]
    assert (answer["gone"], answer["left"], answer["state"]) == (True, [], None)
    assert not any(is_alive(pid) for pid in pids)
    told = session.of(number, "stopping")
    assert {process["pid"] for process in told[0]["left"]} >= set(pids)
    assert pids[1] in {process["pid"] for process in answer["swept"]}
    deadline = time.monotonic() + 60
    while is_alive(supervisor):
        assert time.monotonic() < deadline, "the supervisor waits for a folder that is gone"
        time.sleep(0.1)


def test_a_folder_that_never_was_has_nothing_to_stop(session: Client, tmp_path: Path) -> None:
    for name in ("runs/none/0", "elsewhere", "runs/none/zero"):
        answer = session.ask("stop", dir=str(tmp_path / name), force=True)
        assert (answer["gone"], answer["left"], answer["swept"], answer["state"]) == (True, [], [], None)
