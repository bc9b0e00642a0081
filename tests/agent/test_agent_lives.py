"""The run lives on without us: killed supervisors, lost sessions, full disks, several sessions at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan, shim_of, wait_until

WORK = "echo ready; while [ ! -e $RANKDECK_RANK_DIR/go ]; do sleep 0.05; done; echo done; exit $RANK"


def go(run: Run) -> None:
    Path(run.dir, "go").touch()


def test_the_supervisor_is_detached(session: Client) -> None:
    run = Run(session, rank_plan(WORK))
    run.pids()
    stat = Path(f"/proc/{run.supervisor}/stat").read_text().rpartition(")")[2].split()
    terminal = int(stat[4])
    assert (int(stat[1]) != session.hello()["pid"], terminal) == (True, 0)
    targets = {os.readlink(f"/proc/{run.supervisor}/fd/{fd}") for fd in (0, 1, 2)}
    assert targets == {"/dev/null", f"{run.dir}/supervisor.log"}
    ignored = int(
        next(
            line.split()[1]
            for line in Path(f"/proc/{run.supervisor}/status").read_text().splitlines()
            if line.startswith("SigIgn")
        ),
        16,
    )
    assert ignored & (1 << (signal.SIGHUP - 1))
    session.process.kill()
    session.process.wait()
    assert is_alive(run.supervisor)


def test_the_run_goes_on_when_the_session_is_killed(connect: Callable[..., Client]) -> None:
    first = connect(python=sys.executable)
    run = Run(first, rank_plan(WORK))
    run.wait_log("0.out", b"ready")
    os.kill(first.hello()["pid"], signal.SIGKILL)
    second = connect(python=sys.executable)
    seen = len(run.events())
    follow = second.send("follow", dir=run.dir, since=seen, logs="all", offsets={"0.out": 3}, samples=0)
    go(run)
    assert second.reply(follow)[0]["state"] == "succeeded"
    assert second.log(follow, "0.out", 3) == b"dy\ndone\n"
    assert second.events(follow)[0]["seq"] == seen + 1


def test_a_killed_supervisor_is_replaced_and_every_exit_is_known(session: Client) -> None:
    plan = rank_plan(WORK, WORK)
    plan["stop"]["on_rank_failure"] = "keep"
    run = Run(session, plan)
    pids = run.pids()
    os.kill(run.supervisor, signal.SIGKILL)
    resumed = run.event("supervisor_resumed")
    assert resumed["pid"] != run.supervisor
    session.wait_for(lambda: len(session.of(run.follow, "supervisor")) >= 3, "word of the supervisor")
    assert [h["alive"] for h in session.of(run.follow, "supervisor")] == [True, False, True]
    assert all(is_alive(pid) for pid in pids)
    go(run)
    assert run.end() == "failed"
    assert {e["rank"]: e["exit_code"] for e in run.events("rank_ended")} == {0: 0, 1: 1}
    assert len(run.events("rank_started")) == 2
    assert [event["seq"] for event in run.events()] == list(range(1, len(run.events()) + 1))


def test_exits_while_no_supervisor_lived(session: Client, connect: Callable[..., Client]) -> None:
    run = Run(session, rank_plan(WORK))
    pid = run.pids()[0]
    session.ask("unfollow", follow=run.follow)
    os.kill(run.supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(run.supervisor), "death of the supervisor")
    go(run)
    client = connect(python=sys.executable)
    wait_until(lambda: not is_alive(pid), "end of the rank")
    follow = client.send("follow", dir=run.dir, since=0, logs="all", offsets={}, samples=0)
    assert client.reply(follow)[0]["state"] == "succeeded"
    assert client.wait_event(follow, "rank_ended")["exit_code"] == 0


def test_supervisor_and_shim_killed_leaves_the_exit_unknown(session: Client) -> None:
    run = Run(session, rank_plan(WORK))
    pid = run.pids()[0]
    shim = shim_of(run, 0)
    os.kill(run.supervisor, signal.SIGKILL)
    os.kill(shim, signal.SIGKILL)
    run.event("supervisor_resumed")
    assert is_alive(pid)
    go(run)
    assert run.end() == "failed"
    assert run.event("rank_unknown")["rank"] == 0


def test_a_run_without_supervisor_can_be_stopped(connect: Callable[..., Client]) -> None:
    client = connect(python=sys.executable)
    run = Run(client, rank_plan("setsid sleep 600 & sleep 600"))
    pid = run.pids()[0]
    client.ask("unfollow", follow=run.follow)
    os.kill(run.supervisor, signal.SIGKILL)
    answer = run.stop(grace=5)
    assert answer["gone"]
    assert not is_alive(pid)
    assert [process["cmd"] for process in answer["swept"]] == ["sleep 600"]


def test_a_stop_goes_on_after_the_supervisor_is_killed(session: Client) -> None:
    run = Run(session, rank_plan("trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    run.wait_log("0.out", b"ready")
    session.send("stop", dir=run.dir, signal="TERM", grace=3, force=False)
    run.event("stopping")
    os.kill(run.supervisor, signal.SIGKILL)
    assert run.end() == "stopped"
    assert run.event("rank_ended")["signal"] == "KILL"


def test_an_event_cut_short_by_the_kill_is_dropped(session: Client) -> None:
    run = Run(session, rank_plan(WORK))
    run.pids()
    session.ask("unfollow", follow=run.follow)
    os.kill(run.supervisor, signal.SIGKILL)
    with Path(run.dir, "events.jsonl").open("a") as file:
        file.write('{"seq":99,"ev":"rank_en')
    go(run)
    follow = session.send("follow", dir=run.dir, since=0, logs=[], offsets={}, samples=0)
    assert session.reply(follow)[0]["state"] == "succeeded"
    lines = Path(run.dir, "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_two_sessions_revive_one_supervisor(connect: Callable[..., Client]) -> None:
    one, two = connect(python=sys.executable), connect(python=sys.executable)
    run = Run(one, rank_plan(WORK))
    run.pids()
    other = two.send("follow", dir=run.dir, since=0, logs=[], offsets={}, samples=0)
    two.wait_event(other, "rank_started")
    os.kill(run.supervisor, signal.SIGKILL)
    run.event("supervisor_resumed")
    two.wait_event(other, "supervisor_resumed")
    go(run)
    assert run.end() == "succeeded"
    assert two.reply(other)[0]["state"] == "succeeded"
    assert len(run.events("supervisor_resumed")) == 1


def test_another_boot_makes_the_exit_unknown(session: Client) -> None:
    run = Run(session, rank_plan(WORK))
    pids = [*run.pids(), shim_of(run, 0)]
    session.ask("unfollow", follow=run.follow)
    for pid in [run.supervisor, *pids]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), "end of all")
    for name in ("supervisor.json", "ranks/0.start.json"):
        path = Path(run.dir, name)
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "an earlier one"}))
    follow = session.send("follow", dir=run.dir, since=0, logs=[], offsets={}, samples=0)
    assert session.reply(follow)[0]["state"] == "failed"
    assert "restarted" in session.wait_event(follow, "rank_unknown")["why"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"needs root to mount a small file system: {made.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Take all the space there is. tmpfs counts per CPU, and may refuse too early: so, often."""
    refused = 0
    with path.open("wb", buffering=0) as file:
        while refused < 100:
            try:
                file.write(bytes(4096))
            except OSError:
                refused += 1
                time.sleep(0.002)


def test_a_full_disk_stops_no_rank_and_hides_no_exit(
    connect: Callable[..., Client], small_disk: Path
) -> None:
    program = f"while [ ! -e {small_disk}/../go ]; do sleep 0.05; done; exit $((40 + $RANK))"
    client = connect(folder=small_disk / "node", python=sys.executable)
    plan = rank_plan(program, program)
    plan["stop"]["on_rank_failure"] = "keep"
    run = Run(client, plan)
    run.pids()
    fill(small_disk / "filler")
    (small_disk.parent / "go").touch()
    assert run.end() == "failed"
    assert {e["rank"]: e["exit_code"] for e in run.events("rank_ended")} == {0: 40, 1: 41}
    assert run.events("record_degraded")
    # the supervisor waits for room, and the record is whole in the end
    (small_disk / "filler").unlink()
    wait_until(lambda: not is_alive(run.supervisor), "end of the supervisor")
    lines = Path(run.dir, "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == run.events()
    assert json.loads(Path(run.dir, "supervisor.json").read_text())["state"] == "failed"


def test_a_full_disk_that_only_ranks_write_to_is_told(
    connect: Callable[..., Client], small_disk: Path, tmp_path: Path
) -> None:
    # Nobody but the rank writes there meanwhile, and it is told of what the disk does not take.
    program = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    run = Run(connect(python=sys.executable), rank_plan(program, log_dir=str(small_disk)))
    run.pids()
    assert not run.events("record_degraded")
    fill(small_disk / "filler")
    wait_until(lambda: run.events("record_degraded"), "word of the full disk")
    assert "the ranks' logs: No space left on device" in run.event("record_degraded")["what"]
    (small_disk / "filler").unlink()
    (tmp_path / "go").touch()
    assert run.end() == "succeeded"


def test_a_rank_starts_though_its_logs_cannot_be_opened(session: Client, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "rank-00000.out").mkdir(parents=True)
    run = Run(session, rank_plan("echo lost; echo kept >&2; exit 3", log_dir=str(logs)))
    assert run.end() == "failed"
    assert run.event("rank_ended")["exit_code"] == 3
    assert "rank-00000.out" in run.event("record_degraded")["what"]
    assert run.log("0.err") == b"kept\n"
