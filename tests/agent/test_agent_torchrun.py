"""Ranks under a launcher: a stand-in for most of it, and torchrun itself."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client, Refused
from agent_runs import Run, is_alive, rank_plan, shim_of

LAUNCHER = """
import os, signal, subprocess, sys
args = sys.argv[1:]
workers = []
def stop(number, frame):
    for worker in workers:
        worker.send_signal(number)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
print("launching", flush=True)
for rank in range(2):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
    workers.append(subprocess.Popen(args, env=env, start_new_session=True))
status = [worker.wait() for worker in workers]
print("statuses", status, flush=True)
if any(status):
    print("a worker failed", file=sys.stderr)
    sys.exit(1)
"""


def launcher_plan(
    program: list[str] | str, launcher: list[str] | None = None, **changes: Any
) -> dict[str, Any]:
    """One launcher with two ranks."""
    plan = rank_plan("true", "true", **changes)
    plan["processes"] = [
        {
            "ranks": [0, 1],
            "local_ranks": [0, 1],
            "launcher": launcher if launcher is not None else [sys.executable, "-c", LAUNCHER],
            "program": ["sh", "-c", program] if isinstance(program, str) else program,
            "cwd": "/",
            "env": {"SHARED": "yes"},
            "fill": True,
        }
    ]
    return plan


def test_ranks_of_a_launcher_have_their_own_logs_and_exits(session: Client) -> None:
    run = Run(session, launcher_plan(["printf", "%s %s %s\\n", "$RANK", "${WORLD_SIZE}", "$MASTER_ADDR"]))
    assert run.end() == "succeeded"
    assert [run.log(f"{rank}.out") for rank in (0, 1)] == [b"0 2 127.0.0.1\n", b"1 2 127.0.0.1\n"]
    assert run.log("launcher-0.out") == b"launching\nstatuses [0, 0]\n"
    assert sorted(e["rank"] for e in run.events("rank_started")) == [0, 1]
    ended = run.event("launcher_ended")
    assert (ended["exit_code"], ended["signal"], ended["message"]) == (0, None, "")


def test_a_failing_rank_under_a_launcher(session: Client) -> None:
    up = "while [ ! -e $RANKDECK_RANK_DIR/up ]; do sleep 0.05; done"
    program = f"if [ $RANK = 0 ]; then {up}; kill -SEGV $$$$; fi; touch $RANKDECK_RANK_DIR/up; sleep 600"
    run = Run(session, launcher_plan(program))
    assert run.end() == "failed"
    first = run.event("rank_ended", rank=0)
    assert (first["exit_code"], first["signal"], first["asked"]) == (None, "SEGV", False)
    assert (run.event("stopping")["why"], run.event("stopping")["rank"]) == ("rank_failed", 0)
    assert run.event("rank_ended", rank=1)["asked"] is True
    ended = run.event("launcher_ended")
    assert (ended["exit_code"], ended["message"]) == (1, "a worker failed")
    assert b"statuses [-11, -15]" in run.log("launcher-0.out")


def test_a_stop_reaches_each_rank_once(session: Client) -> None:
    count = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(15, lambda *_: got.append(1)); print('ready', flush=True)\n"
        "while not got: time.sleep(0.05)\n"
        "time.sleep(1.5); print('got', len(got), flush=True)"
    )
    run = Run(session, launcher_plan([sys.executable, "-c", count]))
    for name in ("0.out", "1.out"):
        run.wait_log(name, b"ready")
    assert run.stop()["gone"]
    assert run.end() == "stopped"
    assert [run.log(f"{rank}.out") for rank in (0, 1)] == [b"ready\ngot 1\n"] * 2


def test_a_killed_launcher_takes_its_ranks_along(session: Client) -> None:
    run = Run(session, launcher_plan("sleep 600"))
    pids = run.pids()
    os.kill(run.event("launcher_started")["pid"], signal.SIGKILL)
    assert run.end() == "failed"
    assert run.event("launcher_ended")["signal"] == "KILL"
    assert run.event("stopping")["why"] == "launcher_ended"
    assert not any(is_alive(pid) for pid in pids)


def test_a_shim_killed_by_its_launcher_takes_the_program_along(session: Client) -> None:
    run = Run(session, launcher_plan("sleep 600"))
    pids = run.pids()
    os.kill(shim_of(run, 1), signal.SIGKILL)
    assert run.end() == "failed"
    assert run.event("rank_ended", rank=1)["signal"] == "KILL"
    assert not any(is_alive(pid) for pid in pids)


def test_a_launcher_that_is_not_there(session: Client) -> None:
    run = Run(session, launcher_plan("true", launcher=["no-such-torchrun", "--nnodes=1"]))
    assert run.end() == "failed"
    failed = run.event("start_failed")
    assert (failed["rank"], failed["process"]) == (None, 0)
    assert "no-such-torchrun: no such program in PATH=" in failed["message"]
    assert run.event("launcher_ended")["exit_code"] == 127
    assert run.events("launcher_started") == []


RULE = "-" * 74
HELP = f"""{RULE}
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
  one or more nodes.
{RULE}
"""
ABORTED = f"""{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
{RULE}
mpirun detected that one or more processes exited with non-zero status.

  Process name: [[8472,1],2]
  Exit code:    1
{RULE}
"""


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("bash: line 1: prted: command not found\n" + HELP, "bash: line 1: prted: command not found"),
        (
            "OpenSSL version mismatch. Built against 30000020, you have 30100010\n\n" + HELP,
            "OpenSSL version mismatch. Built against 30000020, you have 30100010",
        ),
        (
            HELP,
            "ORTE was unable to reliably start one or more daemons. This usually is caused by:",
        ),
        (
            ABORTED,
            "Primary job terminated normally, but 1 process returned a non-zero exit code. "
            "Per user-direction, the job has been aborted.",
        ),
        ("starting\nusage: wrong option\n\n", "usage: wrong option"),
        (RULE + "\n", ""),
    ],
)
def test_of_a_page_of_help_the_cause_is_told(session: Client, printed: str, told: str) -> None:
    launcher = ["sh", "-c", 'printf %s "$0" >&2; exit 1', printed]
    run = Run(session, launcher_plan("true", launcher=launcher))
    assert run.end() == "failed"
    assert run.event("launcher_ended")["message"] == told


def test_a_launcher_that_fails_before_its_ranks(session: Client) -> None:
    launcher = ["sh", "-c", "echo usage: wrong option >&2; exit 2"]
    run = Run(session, launcher_plan("true", launcher=launcher))
    assert run.end() == "failed"
    assert "usage: wrong option" in run.event("start_failed")["message"]
    assert run.event("launcher_ended")["exit_code"] == 2


def test_a_program_that_is_not_there_under_a_launcher(session: Client) -> None:
    run = Run(session, launcher_plan(["/no/such/program"]))
    assert run.end() == "failed"
    assert {e["rank"] for e in run.events("start_failed")} <= {0, 1}
    assert "no such file" in run.events("start_failed")[0]["message"]
    assert {e["exit_code"] for e in run.events("rank_ended") if not e["asked"]} == {127}


def test_a_supervisor_killed_under_a_launcher(session: Client) -> None:
    plan = launcher_plan("sleep 1.5; exit $RANK")
    plan["stop"]["on_rank_failure"] = "keep"
    run = Run(session, plan)
    run.pids()
    os.kill(run.supervisor, signal.SIGKILL)
    assert run.end() == "failed"
    assert {e["rank"]: e["exit_code"] for e in run.events("rank_ended")} == {0: 0, 1: 1}


def test_ranks_are_read_from_the_variables_of_the_plan(session: Client) -> None:
    script = LAUNCHER.replace("RANK=str(rank), LOCAL_RANK", "RANK='9', PROC=str(rank), LOCAL_PROC")
    plan = launcher_plan(["echo", "here"], launcher=[sys.executable, "-c", script])
    names = {"rank": "PROC", "local_rank": "LOCAL_PROC", "world_size": "WORLD_SIZE", "keep": []}
    plan["processes"][0]["rank_from"] = names
    run = Run(session, plan)
    assert run.end() == "succeeded"
    assert sorted((e["rank"], e["local_rank"]) for e in run.events("rank_started")) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("ranks", [[0, 1], [0]])
def test_a_launcher_that_does_not_tell_ranks_who_they_are(session: Client, ranks: list[int]) -> None:
    """An only rank, too: it may be one of several nodes, and would train alone."""
    plan = launcher_plan("true", launcher=["env", "-u", "RANK", "LOCAL_RANK=x"])
    plan["processes"][0].update(ranks=ranks, local_ranks=ranks)
    run = Run(session, plan)
    assert run.end() == "failed"
    said = "the launcher does not tell its ranks who they are: RANK=(not set), LOCAL_RANK=x"
    assert said in run.event("launcher_ended")["message"]


def test_files_of_a_launcher(session: Client) -> None:
    show = "import os, sys; print(open(sys.argv[1]).read(), oct(os.stat(sys.argv[1]).st_mode), end='')"
    launcher = [sys.executable, "-c", show, "@FILES@/hosts.txt"]
    plan = launcher_plan("true", launcher=launcher)
    plan["processes"][0]["files"] = {"hosts.txt": "n1:2\nn\u00e9:1\n"}
    run = Run(session, plan)
    assert run.end() == "failed"  # it starts no ranks
    assert run.log("launcher-0.out").decode() == "n1:2\nn\u00e9:1\n 0o100600"


def test_files_stay_in_their_folder(session: Client) -> None:
    for name in ("../plan.json", "", "..", "a/b"):
        plan = launcher_plan("true")
        plan["processes"][0]["files"] = {name: "x"}
        with pytest.raises(Refused) as refused:
            session.ask("start", run="run-1", dir=None, plan=plan, secrets={})
        assert refused.value.kind == "bad_request"
        assert "allowed: a plain file name" in refused.value.message


TRAIN = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "sum", value.item(), sys.argv[1:], flush=True)
dist.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.timeout(240)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_torchrun(session: Client, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "--nproc-per-node=2",
        "--node-rank=0",
    ]
    launcher += ["--master-addr=127.0.0.1", f"--master-port={port}", "--no-python"]
    plan = launcher_plan([sys.executable, "train.py", "--local_rank=$LOCAL_RANK"], launcher=launcher)
    plan["processes"][0]["cwd"] = str(tmp_path)
    run = Run(session, plan)
    assert run.end(200) == "succeeded", run.log("launcher-0.err") + run.log("0.err")
    for rank in (0, 1):
        assert run.log(f"{rank}.out").decode() == f"rank {rank} of 2 sum 3.0 ['--local_rank={rank}']\n"
    assert sorted(e["rank"] for e in run.events("rank_ended")) == [0, 1]
