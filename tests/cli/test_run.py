"""`rankdeck run` and what can be asked about a run: real ranks on two local nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cli.user import COMMAND, LIMIT, Shell


def test_a_run_is_followed_to_its_end(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello", "lines=3")
    done = rankdeck("run", "hello")
    lines = done.stdout.splitlines()
    for rank, node in enumerate(["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]):
        own = [line for line in lines if line.startswith(f"[{rank} {node}] ")]
        assert own == [
            f"[{rank} {node}] {text}"
            for text in sorted(
                [
                    f"rank {rank} of 4 says hello",
                    f"rank {rank} warns",
                    *(f"line {i} of rank {rank}" for i in range(3)),
                    f"rank {rank} is done",
                ],
                key=[line.partition("] ")[2] for line in own].index,
            )
        ]
    assert len(lines) == 4 * 6
    assert "\x1b" not in done.stdout
    assert re.search(r"run 20\d{6}-\d{6}-hello-\w+ succeeded", done.stderr)

    (run,) = rankdeck.json("runs")
    assert (run["state"], run["profile"], run["world_size"], run["complete"]) == (
        "succeeded",
        "hello",
        4,
        True,
    )
    shown = rankdeck.json("show", "last")
    assert shown["id"] == run["id"]
    assert [rank["state"] for rank in shown["ranks"]] == ["succeeded"] * 4
    assert [rank["exit_code"] for rank in shown["ranks"]] == [0] * 4
    assert [node["name"] for node in shown["nodes"]] == ["127.0.0.1", "127.0.0.2"]
    assert shown["cause"] is None
    text = rankdeck("show", run["id"][:10]).stdout
    assert f"run {run['id']}: succeeded" in text
    assert "4 ranks on 2 nodes of pool two (local)" in text


def test_a_failing_rank_is_the_exit_status_and_the_cause(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("bad", "fail=2", "until=never")
    done = rankdeck("run", "bad", status=1)
    assert "rank 2 on 127.0.0.2: ValueError: the loss is not a number" in done.stderr
    shown = rankdeck.json("show", "last")
    assert shown["state"] == "failed"
    assert (shown["cause"]["rank"], shown["cause"]["node"]) == (2, "127.0.0.2")
    assert shown["ranks"][2]["exit_code"] == 7
    assert shown["ranks"][0]["signal"] == "TERM"
    assert "cause rank 2 on 127.0.0.2: ValueError" in rankdeck("show", "last").stdout


def test_detached_and_stopped(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("long", "until=never")
    detached = rankdeck("run", "long", "--detach", "--json")
    run_id = json.loads(detached.stdout)["id"]
    rankdeck.wait_for("running", lambda: rankdeck.json("show", run_id)["state"] == "running")
    assert rankdeck.json("runs")[0]["state"] == "running"
    stopped = rankdeck("stop", run_id[:-1], "--json")
    assert json.loads(stopped.stdout)["gone"] is True
    shown = rankdeck.json("show", run_id, "--offline")
    assert shown["state"] == "stopped"
    for rank in shown["ranks"]:
        assert not Path(f"/proc/{rank['pid']}").exists()
    # Once more does no harm.
    assert rankdeck.json("stop", run_id)["gone"] is True


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("| head -n 2", "nobody reads the output any more"),
        ("> /dev/full", "standard output can't be written: No space left on device"),
    ],
)
def test_output_that_goes_nowhere_ends_the_following_alone(rankdeck: Shell, where: str, why: str) -> None:
    """The run goes on, and a script does not take that for a success, nor for the run's failure."""
    rankdeck.save_pool()
    rankdeck.save_profile("long", "lines=20000", "until=never")
    command = f"set -o pipefail; {COMMAND} run long {where}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=rankdeck.environment,
        cwd=rankdeck.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 141, done.stderr
    assert f"{why}; run" in done.stderr
    assert rankdeck.json("show", "last")["state"] == "running"
    assert rankdeck.json("stop", "last")["gone"] is True


def test_a_stubborn_rank_is_killed_after_the_grace(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("stubborn", "stubborn", "until=never")
    run_id = rankdeck("run", "stubborn", "--detach").stdout.strip()
    rankdeck.wait_for(
        "all ranks ignore SIGTERM",
        lambda: rankdeck("logs", run_id, "--grep", "ignoring SIGTERM").stdout.count("\n") == 4,
    )
    done = rankdeck("stop", run_id, "--grace", "2s")
    assert "ranks 0-1 on 127.0.0.1: SIGKILL in 2 s" in done.stderr
    assert "ranks 2-3 on 127.0.0.2: SIGKILL in 2 s" in done.stderr
    assert {rank["signal"] for rank in rankdeck.json("show", run_id)["ranks"]} == {"KILL"}


def test_without_a_terminal_ctrl_c_stops(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("long", "until=never")
    process = rankdeck.start("run", "long")
    assert process.stdout is not None
    for _ in range(8):  # every rank's two first lines
        assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "stopped" in stderr
    shown = rankdeck.json("show", "last")
    assert shown["state"] == "stopped"
    assert not any(Path(f"/proc/{rank['pid']}").exists() for rank in shown["ranks"])


def test_a_killed_rankdeck_loses_nothing(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    go = rankdeck.folder / "go"
    rankdeck.save_profile("bytes", "bytes=300", f"until={go}", "bytes=300", "lines=200")
    process = rankdeck.start("run", "bytes")
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    go.touch()
    hello = "rank {0} of 4 says hello\n"
    raw = bytes(range(256)) * 300
    tail = b"".join(b"line %d of rank 3\n" % i for i in range(200)) + b"rank 3 is done\n"
    wanted = hello.format(3).encode() + raw + raw + tail
    got = rankdeck.wait_for(
        "all bytes", lambda: _raw(rankdeck, 3) if len(_raw(rankdeck, 3)) >= len(wanted) else b""
    )
    assert got == wanted
    assert rankdeck.json("show", "last")["state"] == "succeeded"


def _raw(rankdeck: Shell, rank: int) -> bytes:
    done = rankdeck("logs", "last", "--rank", str(rank), "--stream", "out", "--raw")
    return done.stdout.encode("utf-8", "surrogateescape")


def test_events_as_json_lines(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    events = [json.loads(line) for line in rankdeck("run", "hello", "--json").stdout.splitlines()]
    kinds = [event["ev"] for event in events]
    assert kinds[0] == "run_created"
    assert kinds.count("rank_started") == kinds.count("rank_ended") == 4
    assert events[-1] == {
        "ev": "run_ended",
        "id": rankdeck.json("runs")[0]["id"],
        "state": "succeeded",
        "exit_status": 0,
    }


def test_a_record_s_own_run_toml_repeats_the_run(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    rankdeck("run", "hello")
    (run,) = rankdeck.json("runs")
    rankdeck("pools", "remove", "two")
    path = rankdeck.folder / "data/runs" / run["id"] / "run.toml"
    rankdeck("run", str(path))
    again = rankdeck.json("show", "last")
    assert again["id"] != run["id"]
    assert (again["state"], again["world_size"], again["pool"]) == ("succeeded", 4, "two")


def test_without_a_pool_it_runs_on_this_machine(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello")
    file = rankdeck.folder / "config/profiles/hello.toml"
    file.write_text(file.read_text().replace('pool = "two"\n', ""))
    assert "[0 127.0.0.1] rank 0 of 1 says hello" in rankdeck("run", "hello").stdout


def test_a_script_that_is_not_there_is_told_and_nothing_starts(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello", script="nosuch.py")
    done = rankdeck("run", "hello", status=2)
    assert "nosuch.py" in done.stderr
    assert "script" in done.stderr
    assert done.stdout == ""
    assert rankdeck.json("runs") == []


def test_a_host_that_does_not_answer_is_told(rankdeck: Shell) -> None:
    rankdeck.save_pool("far", 'backend = "ssh"\nnodes = ["no-such-host.invalid"]\n')
    rankdeck.save_profile("hello", pool="far")
    for command in [("run", "hello"), ("plan", "hello"), ("gpus", "--pool", "far")]:
        done = rankdeck(*command, status=3)
        assert "no-such-host.invalid" in done.stderr
        assert "Traceback" not in done.stderr
    assert rankdeck.json("runs") == []


def test_what_nodes_lack_stops_a_launch_unless_it_is_told_to_skip_that(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello", script="nosuch.py")
    done = rankdeck("run", "hello", status=2)
    assert "nosuch.py" in done.stderr
    assert rankdeck.json("runs") == []
    done = rankdeck("run", "hello", "--skip-checks", status=1)
    assert "warning: 127.0.0.1: " in done.stderr
    assert rankdeck.json("show", "last")["state"] == "failed"
