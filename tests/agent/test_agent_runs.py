"""Runs from start to end, over real processes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_client import Client, Refused
from agent_runs import Run, is_alive, rank_plan, wait_until


def test_two_ranks_run_and_succeed(session: Client) -> None:
    run = Run(session, rank_plan("echo out $RANK; echo err $RANK >&2", "echo out $RANK; echo err $RANK >&2"))
    assert run.end() == "succeeded"
    assert run.events()[0]["ev"] == "supervisor_started"
    assert [event["seq"] for event in run.events()] == list(range(1, len(run.events()) + 1))
    for rank in (0, 1):
        assert run.log(f"{rank}.out") == b"out %d\n" % rank
        assert run.log(f"{rank}.err") == b"err %d\n" % rank
        ended = run.event("rank_ended", rank=rank)
        assert (ended["exit_code"], ended["signal"], ended["asked"]) == (0, None, False)
        assert (ended["out_bytes"], ended["err_bytes"]) == (6, 6)
        assert json.loads(Path(run.dir, f"ranks/{rank}.exit.json").read_text())["exit_code"] == 0
    assert run.events()[-1]["ev"] == "node_ended"


def test_a_run_leaves_nothing_running(session: Client) -> None:
    run = Run(session, rank_plan("true"))
    assert run.end() == "succeeded"
    wait_until(lambda: not is_alive(run.supervisor), "end of the supervisor")


def test_files_are_private(session: Client) -> None:
    run = Run(session, rank_plan("echo x; sleep 0.6; echo y"))
    assert run.end() == "succeeded"
    found = [Path(run.dir), *Path(run.dir).rglob("*")]
    assert {path.name for path in found} >= {
        "rank-00000.out",
        "rank-00000.times",
        "0.start.json",
        "plan.json",
    }
    assert [str(path) for path in found if path.stat().st_mode & 0o077 and not path.is_socket()] == []


def test_exit_codes_and_signals(session: Client) -> None:
    plan = rank_plan("exit 3", "kill -SEGV $$", "kill -KILL $$", "exit 0")
    plan["stop"]["on_rank_failure"] = "keep"
    run = Run(session, plan)
    assert run.end() == "failed"
    outcomes = {e["rank"]: (e["exit_code"], e["signal"]) for e in run.events("rank_ended")}
    assert outcomes == {0: (3, None), 1: (None, "SEGV"), 2: (None, "KILL"), 3: (0, None)}
    assert run.events("stopping") == []


def test_a_failing_rank_is_named_and_the_others_are_stopped(session: Client) -> None:
    run = Run(session, rank_plan("sleep 600", "sleep 0.3; exit 7", "sleep 600"))
    assert run.end() == "failed"
    stopping = run.event("stopping")
    assert (stopping["why"], stopping["rank"], stopping["signal"]) == ("rank_failed", 1, "TERM")
    ended = {e["rank"]: e for e in run.events("rank_ended")}
    assert (ended[1]["exit_code"], ended[1]["asked"]) == (7, False)
    assert [(ended[r]["signal"], ended[r]["asked"]) for r in (0, 2)] == [("TERM", True)] * 2


def test_keep_lets_the_others_go_on(session: Client) -> None:
    plan = rank_plan("exit 5", "sleep 1; echo done")
    plan["stop"]["on_rank_failure"] = "keep"
    run = Run(session, plan)
    assert run.end() == "failed"
    assert run.log("1.out") == b"done\n"
    assert run.event("rank_ended", rank=1)["exit_code"] == 0


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (["no-such-program-here"], 127, "no such program in PATH="),
        (["/no/such/program"], 127, "no such file"),
        (["/etc/passwd"], 126, "not executable"),
        (["/tmp"], 126, "is a folder"),
        (["true", "x" * 200_000], 126, "too long"),
    ],
)
def test_a_program_that_cannot_start(session: Client, program: list[str], status: int, said: str) -> None:
    run = Run(session, rank_plan(program))
    assert run.end() == "failed"
    failed = run.event("start_failed")
    assert failed["rank"] == 0
    assert said in failed["message"]
    assert run.event("rank_ended")["exit_code"] == status
    assert run.events("rank_started") == []


def test_an_environment_that_is_too_large_as_a_whole(session: Client) -> None:
    plan = rank_plan("true")
    # Each may be, but all together may not.
    count = min(os.sysconf("SC_ARG_MAX") // 100_000 + 2, 38)
    plan["processes"][0]["env"] = {f"BIG_{number}": "x" * (100_000 + number) for number in range(count)}
    run = Run(session, plan)
    assert run.end() == "failed"
    said = run.event("start_failed")["message"]
    assert "arguments and environment are too long for this system" in said
    largest = ", ".join(f"BIG_{number} {100_000 + number}" for number in range(count - 1, count - 6, -1))
    assert f"variables: {largest}" in said
    # The same is told before any start.
    env = plan["processes"][0]["env"]
    (problem,) = session.ask("check", needs=[], cwd="/", setup=[], env=env)["problems"]
    assert problem["kind"] == "environment"
    assert "arguments and environment are too long for this system" in problem["message"]
    assert f"variables: {largest}" in problem["message"]


def test_a_script_whose_interpreter_is_missing(session: Client, tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    run = Run(session, rank_plan([str(script)]))
    assert run.end() == "failed"
    assert "interpreter" in run.event("start_failed")["message"]


def test_a_working_directory_that_is_gone(session: Client) -> None:
    plan = rank_plan("true")
    plan["processes"][0]["cwd"] = "/no/such/folder"
    run = Run(session, plan)
    assert run.end() == "failed"
    assert "/no/such/folder" in run.event("start_failed")["message"]


def test_bytes_arrive_as_written(session: Client, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000 + b"\0\xff\xfe no newline at the end"
    source = tmp_path / "data"
    source.write_bytes(data)
    run = Run(session, rank_plan(["cat", str(source)]))
    assert run.end() == "succeeded"
    assert run.log("0.out") == data
    header, body = session.reply(session.send("read", dir=run.dir, name="0.out", offset=250, length=20))
    assert (header["size"], body) == (len(data), data[250:270])


def test_sixty_ranks(session: Client) -> None:
    run = Run(session, rank_plan(*["for i in 1 2 3 4 5; do echo line $i of $RANK; done; sleep 1"] * 60))
    assert run.end(120) == "succeeded"
    for rank in range(60):
        assert run.log(f"{rank}.out") == b"".join(b"line %d of %d\n" % (i, rank) for i in range(1, 6))
    assert sorted(e["rank"] for e in run.events("rank_ended")) == list(range(60))


def test_environment(connect: Callable[..., Client]) -> None:
    client = connect(
        python=sys.executable,
        env={
            "PET_NNODES": "4",
            "LATIN": os.fsdecode(b"caf\xe9"),
            "PYTHONPATH": "/my/own",
            "PYTHONHOME": "/nowhere",
            "LC_ALL": "C",
        },
    )
    plan = rank_plan("env -0", remove=["PET_NNODES"], setup=["export FROM_SETUP='two words'", "cd /tmp"])
    plan["processes"][0]["env"]["NAME"] = "été"
    run = Run(client, plan, secrets={"TOKEN": "s3cret"})
    assert run.end() == "succeeded"
    seen = dict(entry.split(b"=", 1) for entry in run.log("0.out").split(b"\0") if entry)
    assert b"PET_NNODES" not in seen
    assert b"LC_CTYPE" not in seen
    assert seen[b"LATIN"] == b"caf\xe9"
    assert seen[b"PYTHONPATH"] == b"/my/own"
    assert seen[b"FROM_SETUP"] == b"two words"
    assert seen[b"NAME"] == "été".encode()
    assert seen[b"TOKEN"] == b"s3cret"
    assert seen[b"RANKDECK_NODE"] == b"run-1/0"
    assert seen[b"RANKDECK_RUN_ID"] == b"run-1"
    assert seen[b"RANKDECK_RANK_DIR"] == os.fsencode(run.dir)
    on_disk = b"".join(
        p.read_bytes() for p in Path(run.dir).rglob("*") if p.is_file() and p.parent.name != "logs"
    )
    assert b"s3cret" not in on_disk


def test_placeholders_are_filled_in_as_data(session: Client) -> None:
    words = ["$RANK", "${LOCAL_RANK}x", "$WORLD_SIZE", "$NODE_RANK", "$$RANK", "$RANKS", "$HOME", "a;b $RANK"]
    plan = rank_plan("true", ["printf", "%s\\n", *words])
    for process in plan["processes"]:
        process["fill"] = True
    run = Run(session, plan)
    assert run.end() == "succeeded"
    assert run.log("1.out").decode().splitlines() == [
        "1",
        "1x",
        "2",
        "0",
        "$RANK",
        "$RANKS",
        "$HOME",
        "a;b 1",
    ]


def test_words_stay_as_they_are_without_fill(session: Client) -> None:
    run = Run(session, rank_plan(["printf", "%s", "$RANK $$"]))
    assert run.end() == "succeeded"
    assert run.log("0.out") == b"$RANK $$"


def test_home_is_filled_in(connect: Callable[..., Client], tmp_path: Path) -> None:
    (tmp_path / "prog").write_text('#!/bin/sh\necho "$PWD $1"\n')
    (tmp_path / "prog").chmod(0o755)
    plan = rank_plan(["~/prog", "~/data"])
    plan["processes"][0]["cwd"] = "~"
    run = Run(connect(python=sys.executable, env={"HOME": str(tmp_path)}), plan)
    assert run.end() == "succeeded"
    assert run.log("0.out").decode() == f"{tmp_path} {tmp_path}/data\n"


def test_a_rank_starts_with_default_signals_and_no_foreign_descriptors(session: Client) -> None:
    program = (
        "import os, signal; print(sorted(os.listdir('/proc/self/fd')), "
        "int(signal.getsignal(signal.SIGHUP)), os.getpgid(0) == os.getpid())"
    )
    run = Run(session, rank_plan([sys.executable, "-c", program]))
    assert run.end() == "succeeded"
    assert run.log("0.out").decode() == "['0', '1', '2', '3'] 0 True\n"


def test_setup_that_fails_names_its_line(session: Client) -> None:
    run = Run(session, rank_plan("true", setup=["A=1", "echo loading; ls /no/such/module", "B=2"]))
    assert run.end() == "failed"
    failed = run.event("setup_failed")
    assert failed["line"] == "echo loading; ls /no/such/module"
    assert failed["status"] == 2
    assert "loading" in failed["output"]
    assert "/no/such/module" in failed["output"]
    assert run.events("rank_started") == []


def test_setup_can_be_stopped(session: Client) -> None:
    run = Run(session, rank_plan("true", setup=["sleep 600"]))
    run.event("supervisor_started")
    assert run.stop()["gone"]
    assert run.end() == "stopped"
    assert run.events("rank_started") == []


def test_the_same_start_again_starts_nothing(session: Client) -> None:
    plan = rank_plan("echo once >> $RANKDECK_RANK_DIR/count; sleep 1")
    run = Run(session, plan)
    again = session.ask("start", run="run-1", dir=None, plan=plan, secrets={})
    assert (again["dir"], again["pid"]) == (run.dir, run.supervisor)
    assert run.end() == "succeeded"
    assert Path(run.dir, "count").read_text() == "once\n"
    with pytest.raises(Refused, match="another run's plan") as refused:
        session.ask("start", run="run-1", dir=None, plan=rank_plan("false"), secrets={})
    assert refused.value.kind == "exists"


def test_a_long_folder_name(connect: Callable[..., Client], tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100) / ("y" * 100)
    run = Run(connect(folder=long, python=sys.executable), rank_plan("sleep 600"))
    run.pids()
    assert run.stop(grace=5)["gone"]
    assert run.end() == "stopped"


def test_times_of_growth_are_noted(session: Client) -> None:
    run = Run(session, rank_plan("echo a; sleep 1.5; echo b >&2; sleep 0.5"))
    before = time.time()
    assert run.end() == "succeeded"
    lines = [line.split() for line in Path(run.dir, "logs/rank-00000.times").read_text().splitlines()]
    assert [(int(out), int(err)) for _, out, err in lines] == [(2, 0), (2, 2)]
    assert before - 60 < float(lines[0][0]) < float(lines[1][0]) <= time.time()
