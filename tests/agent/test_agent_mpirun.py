"""Ranks of two nodes under one mpirun: Open MPI, or MPICH where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client, Refused
from agent_runs import Run, is_alive, rank_plan, shim_of, wait_until
from linked import start_all

OPEN_MPI = {
    "rank": "OMPI_COMM_WORLD_RANK",
    "local_rank": "OMPI_COMM_WORLD_LOCAL_RANK",
    "world_size": "OMPI_COMM_WORLD_SIZE",
    "keep": ["OMPI_*", "PMIX_*"],
}
HYDRA = {
    "rank": "PMI_RANK",
    "local_rank": "MPI_LOCALRANKID",
    "world_size": "PMI_SIZE",
    "keep": ["PMI_*", "HYDI_*", "MPI_LOCAL*"],
}


def family(mpirun: str) -> str:
    path = shutil.which(mpirun)
    if path is None:
        return ""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    return "openmpi" if "Open MPI" in said else "mpich" if "HYDRA" in said else ""


MPICH = next((name for name in ("mpirun.mpich", "mpiexec.hydra") if family(name) == "mpich"), None)

needs_open_mpi = pytest.mark.skipif(family("mpirun") != "openmpi", reason="needs Open MPI's mpirun")
pytestmark = pytest.mark.timeout(240)


def plans(
    program: list[str] | str, launcher: list[str] | None = None, source: Any = None, **changes: Any
) -> list[dict[str, Any]]:
    """The plans of two nodes with two ranks each; the first starts mpirun."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    words = ["sh", "-c", program] if isinstance(program, str) else program
    what = {"program": words, "fill": True, "rank_from": source or OPEN_MPI}
    made = []
    for node in (0, 1):
        plan = rank_plan("true", "true", "true", "true", **changes)
        plan.update(
            node=f"n{node}",
            node_rank=node,
            processes=[],
            joins=what,
            rank_cwd="/",
            rank_env={"NODE_RANK": str(node), "WORLD_SIZE": "4", "FROM_PLAN": "it's"},
            world=[{"node_rank": 0, "ranks": [0, 1]}, {"node_rank": 1, "ranks": [2, 3]}],
        )
        made.append(plan)
    del made[0]["joins"]
    made[0]["processes"] = [
        {
            **what,
            "kind": "mpirun",
            "ranks": [0, 1, 2, 3],
            "local_ranks": [0, 1, 0, 1],
            "launcher": launcher or ["mpirun", *root, "--oversubscribe", "-n", "4"],
            "cwd": "/",
            "env": {"OMPI_MCA_btl": "self,tcp", "FOR_MPIRUN": "1"},
            "files": {},
        }
    ]
    return made


def linked(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with links between the nodes."""
    links = {"nodes": ["n0", "n1"], "barrier": 120.0, "lost": 60.0, "served": []}
    return [{**plan, "links": links} for plan in made]


def start(client: Client, made: list[dict[str, Any]], **options: Any) -> tuple[Run, Run]:
    """The joined node first, the head last."""
    joined = Run(client, made[1], **options)
    return Run(client, made[0], **options), joined


def check_numbers(session: Client, made: list[dict[str, Any]]) -> None:
    head, joined = start(session, made, secrets={"TOKEN": "s3cret"})
    assert head.end(120) == "succeeded", head.log("launcher-0.err")
    assert joined.end(120) == "succeeded", joined.log("2.err")
    for rank in range(4):
        run, node, local = (head, 0, rank) if rank < 2 else (joined, 1, rank - 2)
        said = run.log(f"{rank}.out").decode()
        assert said == f"{rank} {local} {node} of 4 it's s3cret none run-1/{node} {rank} :\n"
    assert sorted(e["rank"] for e in head.events("rank_ended")) == [0, 1]
    assert sorted(e["rank"] for e in joined.events("rank_ended")) == [2, 3]
    for run in (head, joined):
        found = [path for path in Path(run.dir).rglob("*") if path.is_file() and "logs" not in path.parts]
        assert found
        assert not [path for path in found if b"s3cret" in path.read_bytes()]


NUMBERS = [
    "sh",
    "-c",
    "echo $RANK $LOCAL_RANK $NODE_RANK of ${WORLD_SIZE}"
    ' "$FROM_PLAN" $TOKEN ${FOR_MPIRUN:-none} $RANKDECK_NODE "$@"',
    "sh",
    "$RANK",
    ":",
]


@needs_open_mpi
def test_each_node_has_its_own_ranks(session: Client) -> None:
    check_numbers(session, plans(NUMBERS))


@pytest.mark.skipif(MPICH is None, reason="needs MPICH's mpirun")
def test_mpich(session: Client) -> None:
    launcher = [str(MPICH), "-n", "4", "-genvlist", "PATH,LD_LIBRARY_PATH"]
    check_numbers(session, plans(NUMBERS, launcher, HYDRA))


@needs_open_mpi
def test_a_failing_rank_ends_both_nodes(session: Client) -> None:
    up = "until [ -e $RANKDECK_RANK_DIR/up ]; do sleep 0.05; done"
    program = f"if [ $RANK = 3 ]; then {up}; exit 7; fi; touch $RANKDECK_RANK_DIR/up; sleep 600"
    head, joined = start(session, plans(program))
    assert joined.end(120) == "failed"
    assert joined.event("rank_ended", rank=3)["exit_code"] == 7
    assert joined.event("stopping")["rank"] == 3
    assert head.end(120) == "failed"
    assert head.event("launcher_ended")["exit_code"] != 0
    pids = [e["pid"] for run in (head, joined) for e in run.events("rank_started")]
    assert not any(is_alive(pid) for pid in pids)


@needs_open_mpi
def test_a_stop_of_the_head_ends_both_nodes(session: Client) -> None:
    head, joined = start(session, plans("sleep 600"))
    for run, ranks in ((head, (0, 1)), (joined, (2, 3))):
        for rank in ranks:
            run.event("rank_started", 120, rank=rank)
    assert head.stop(120)["gone"]
    assert head.end() == "stopped"
    assert joined.stop(120)["gone"]
    assert joined.end() in ("stopped", "failed")  # its ranks may have gone before it was told
    pids = [e["pid"] for run in (head, joined) for e in run.events("rank_started")]
    assert len(pids) == 4
    assert not any(is_alive(pid) for pid in pids)


def test_an_mpirun_that_has_started_nothing_has_no_grace_to_wait_for(session: Client) -> None:
    """It hangs, as where its daemons do not get through; there is no rank that could save anything."""
    stop = {"signal": "TERM", "grace": 600.0, "on_rank_failure": "stop"}
    head, joined = start_all(session, linked(plans("true", ["sh", "-c", "exec sleep 600"], stop=stop)))
    head.event("launcher_started", 120)
    assert head.stop(120)["gone"]
    assert head.end() == "stopped"
    assert joined.end() == "stopped"


SLOW_END = "trap 'sleep 3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
QUICK_AND_SLOW = f"if [ $RANK = 1 ]; then echo up; exec sleep 600; fi; {SLOW_END}"
"""Rank 1 ends at once when it is asked to; the others need 3 s to save."""


def all_up(head: Run, joined: Run) -> None:
    for rank in range(4):
        (head if rank < 2 else joined).wait_log(f"{rank}.out", b"up", 120)


def all_saved(head: Run, joined: Run, asked: bool = True) -> None:
    """The slow ranks had their whole grace, and nothing is left."""
    for rank in (0, 2, 3):
        run = head if rank < 2 else joined
        ended = run.event("rank_ended", rank=rank)
        assert (ended["exit_code"], ended["signal"], ended["asked"]) == (0, None, asked)
        assert run.log(f"{rank}.out") == b"up\nsaved\n"
    assert head.events("rank_unknown") == joined.events("rank_unknown") == []
    pids = [e["pid"] for run in (head, joined) for e in run.events("rank_started")]
    assert not any(is_alive(pid) for pid in pids)


def graceful(program: list[str] | str, **more: Any) -> list[dict[str, Any]]:
    return plans(program, stop={"signal": "TERM", "grace": 10.0, "on_rank_failure": "stop"}, **more)


def check_grace(session: Client, made: list[dict[str, Any]]) -> None:
    head, joined = start(session, made)
    all_up(head, joined)
    stops = [session.send("stop", dir=run.dir) for run in (head, joined)]
    for number in stops:
        assert session.reply(number, 120)[0]["gone"]
    assert (head.end(), joined.end()) == ("stopped", "stopped")
    all_saved(head, joined)


@needs_open_mpi
def test_a_stop_leaves_ranks_their_whole_grace(session: Client) -> None:
    check_grace(session, graceful(QUICK_AND_SLOW))


@pytest.mark.skipif(MPICH is None, reason="needs MPICH's mpirun")
def test_a_stop_under_mpich_leaves_ranks_their_whole_grace(session: Client) -> None:
    launcher = [str(MPICH), "-n", "4", "-genvlist", "PATH,LD_LIBRARY_PATH"]
    check_grace(session, graceful(QUICK_AND_SLOW, launcher=launcher, source=HYDRA))


@needs_open_mpi
def test_a_failure_leaves_the_other_ranks_their_whole_grace(session: Client, tmp_path: Path) -> None:
    fails = f"if [ $RANK = 1 ]; then echo up; until [ -e {tmp_path}/go ]; do sleep 0.1; done; exit 7; fi; "
    head, joined = start(session, graceful(fails + SLOW_END))
    all_up(head, joined)
    (tmp_path / "go").write_text("")
    assert (head.end(120), joined.end(120)) == ("failed", "failed")
    assert head.event("rank_ended", rank=1)["exit_code"] == 7
    assert head.event("stopping")["rank"] == 1
    assert joined.event("stopping")["why"] == "launcher_ended"  # nobody told it but mpirun
    all_saved(head, joined)


@needs_open_mpi
def test_a_rank_that_does_not_end_is_killed_at_the_end_of_the_grace(session: Client) -> None:
    made = plans("trap '' TERM; echo up; while :; do sleep 0.1; done")
    for plan in made:
        plan["stop"]["grace"] = 2.0
    head, joined = start(session, made)
    all_up(head, joined)
    os.kill(head.event("launcher_started")["pid"], signal.SIGKILL)
    assert (head.end(120), joined.end(120)) == ("failed", "failed")
    pids = [e["pid"] for run in (head, joined) for e in run.events("rank_started")]
    assert len(pids) == 4
    assert not any(is_alive(pid) for pid in pids)


@needs_open_mpi
@pytest.mark.parametrize("killed", [0, 1], ids=["head", "joined"])
def test_a_killed_supervisor_costs_no_exit_status(session: Client, tmp_path: Path, killed: int) -> None:
    program = f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.1; done; exit $((RANK == 3 ? 5 : 0))"
    made = plans(program)
    for plan in made:
        plan["stop"]["on_rank_failure"] = "keep"
    runs = start(session, made)
    all_up(*runs)
    os.kill(runs[killed].supervisor, signal.SIGKILL)
    runs[killed].event("supervisor_resumed")
    (tmp_path / "go").write_text("")
    head, joined = runs
    assert joined.end(120) == "failed"
    assert joined.event("rank_ended", rank=3)["exit_code"] == 5
    head.end(120)
    known = {e["rank"] for run in runs for e in run.events("rank_ended")}
    assert known == {0, 1, 2, 3}
    assert [e for run in runs for e in run.events("rank_unknown")] == []
    assert head.events("launcher_ended")
    pids = [e["pid"] for run in runs for e in run.events("rank_started")]
    pids.append(head.event("launcher_started")["pid"])
    assert not any(is_alive(pid) for pid in pids)


@needs_open_mpi
def test_ranks_end_though_supervisor_and_mpirun_were_killed(session: Client) -> None:
    """Nobody is there to stop them but their shims."""
    made = graceful("trap '' TERM; echo up; while :; do sleep 0.1; done")
    for plan in made:
        plan["stop"]["grace"] = 2.0
    head, joined = start(session, made)
    all_up(head, joined)
    pids = [e["pid"] for e in joined.events("rank_started")]
    mpirun = head.event("launcher_started")["pid"]
    session.close()
    os.kill(joined.supervisor, signal.SIGKILL)
    os.kill(mpirun, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "end of the ranks")


def test_a_node_that_waits_can_be_stopped(session: Client) -> None:
    joined = Run(session, plans("true")[1])
    assert joined.stop()["gone"]
    assert joined.end() == "stopped"
    assert joined.events("rank_started") == []


def test_a_node_does_not_wait_for_ever(session: Client) -> None:
    joined = Run(session, {**plans("true")[1], "join_limit": 1.0})
    assert joined.end() == "failed"
    said = "ranks [2, 3] were not started here within 1 s by the mpirun on the head node"
    told = joined.event("start_failed")["message"]
    assert told.startswith(f"{said}; nor were any on another node: its own daemons may not get through")


def join(run: Run, **env: str) -> subprocess.CompletedProcess[str]:
    """What mpirun would run, without it."""
    script = Path(run.dir, "join")
    return subprocess.run(
        ["sh", script, script.parent.parent],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@needs_open_mpi
def test_linked_nodes_begin_together_and_each_ends_by_itself(session: Client) -> None:
    head, joined = start_all(session, linked(plans("sleep 0.$RANK; echo done")))
    assert (head.end(120), joined.end(120)) == ("succeeded", "succeeded")
    ready = joined.event("ready")["t"]
    assert head.event("launcher_started")["t"] >= ready
    assert head.events("stopping") == joined.events("stopping") == []


@pytest.mark.parametrize("status", [0, 3])
def test_a_node_that_waits_hears_that_its_mpirun_has_ended(session: Client, status: int) -> None:
    made = linked(plans("true", ["sh", "-c", f"sleep 1; exit {status}"], run=f"ended-{status}"))
    made[1]["stop"]["on_rank_failure"] = "keep"  # it is not for a failure that this one ends
    head, joined = start_all(session, made)
    assert head.end() == "failed"  # its ranks never began
    assert joined.end() in ("failed", "stopped")
    assert joined.event("stopping")["why"] == "launcher_ended"
    assert joined.events("start_failed") == []


def test_ranks_that_are_no_world_are_refused(session: Client) -> None:
    joined = Run(session, plans("sleep 600")[1])
    done = join(joined, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    assert done.returncode == 126
    assert "this process is rank 0 of 1 to its launcher; the plan has 4" in done.stderr
    assert joined.end() == "failed"
    assert "rank 0 of 1" in joined.event("start_failed")["message"]


def test_a_rank_on_the_wrong_machine_is_refused(session: Client) -> None:
    joined = Run(session, plans("sleep 600")[1])
    done = join(joined, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="4")
    assert "mpirun started rank 1 on " in done.stderr
    assert "where the plan has ranks [2, 3]" in done.stderr
    assert joined.end() == "failed"


def test_a_rank_joins_once(session: Client) -> None:
    made = plans("sleep 600")[1]
    joined = Run(session, made)
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
    script = Path(joined.dir, "join")
    with subprocess.Popen(["sh", script, script.parent.parent], env=env) as first:
        pid = joined.event("rank_started", rank=2)["pid"]
        done = join(joined, OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="4")
        assert done.returncode == 126
        assert "two processes say that they are rank 2 of 4" in done.stderr
        assert joined.end() == "failed"
        assert first.wait(60) != 0
    assert not is_alive(pid)


def test_a_killed_shim_is_noticed(session: Client) -> None:
    joined = Run(session, plans("sleep 600")[1])
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    script = Path(joined.dir, "join")
    with subprocess.Popen(["sh", script, script.parent.parent], env=env) as first:
        pid = joined.event("rank_started", rank=3)["pid"]
        os.kill(shim_of(joined, 3), signal.SIGKILL)
        first.wait(60)
    assert joined.end() == "failed"
    assert joined.event("rank_unknown")["rank"] == 3
    assert not is_alive(pid)


def test_ranks_wait_for_setup_and_large_environments_arrive(session: Client, tmp_path: Path) -> None:
    made = plans("echo ${#BIG} $SET_UP")[1]
    made["world"] = [{"node_rank": 1, "ranks": [0]}]
    made["world_size"] = 1
    made["setup"] = [f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", "export SET_UP=yes"]
    made["rank_env"] = {"BIG": "x" * 100000, **{f"BIG_{n}": "y" * 100000 for n in range(6)}}
    joined = Run(session, made)
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    script = Path(joined.dir, "join")
    with subprocess.Popen(["sh", script, script.parent.parent], env=env) as first:
        time.sleep(0.5)
        assert first.poll() is None
        (tmp_path / "go").write_text("")
        assert first.wait(60) == 0
    assert joined.end() == "succeeded"
    assert joined.log("0.out") == b"100000 yes\n"


def asks_its_supervisor(relay: int) -> bool:
    """Whether a relay's shim holds a socket."""
    try:
        children = Path(f"/proc/{relay}/task/{relay}/children").read_text().split()
        links = [os.readlink(link) for pid in children for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith("socket:") for link in links)


def test_ranks_hear_that_setup_failed(session: Client, tmp_path: Path) -> None:
    made = plans("true")[1]
    made["setup"] = [f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; false"]
    joined = Run(session, made)
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
    script = Path(joined.dir, "join")
    with subprocess.Popen(
        ["sh", script, script.parent.parent], env=env, stderr=subprocess.PIPE, text=True
    ) as first:
        wait_until(lambda: asks_its_supervisor(first.pid), "shim that asks")
        (tmp_path / "go").write_text("")
        said = first.communicate(timeout=60)[1]
    assert "setup failed on this node" in said
    assert joined.end() == "failed"


def test_plans_that_contradict_themselves(session: Client) -> None:
    head, joined = plans("true")
    for plan, said in (
        ({**head, "joins": joined["joins"]}, "no other process"),
        ({**joined, "world": [{"node_rank": 0, "ranks": [0]}]}, "world does not name node 1"),
        ({**joined, "joins": {**joined["joins"], "rank_from": None}}, "rank_from is missing"),
    ):
        with pytest.raises(Refused) as refused:
            session.ask("start", run="run-1", dir=None, plan=plan, secrets={})
        assert refused.value.kind == "bad_request"
        assert said in refused.value.message


MPI4PY = """
import json, os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.Get_rank() + 1)
print(json.dumps([world.Get_rank(), world.Get_size(), total, int(os.environ["RANK"])]), flush=True)
"""


SAVES = """
import os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
def save(number, frame):
    time.sleep(3)
    print("saved", flush=True)
    os._exit(0)
if world.Get_rank() != 1:
    signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""
needs_mpi4py = pytest.mark.skipif(
    subprocess.run(
        [sys.executable, "-c", "from mpi4py import MPI"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="needs mpi4py and its library",
)


@needs_open_mpi
@needs_mpi4py
def test_an_mpi_program_has_its_whole_grace(session: Client, tmp_path: Path) -> None:
    (tmp_path / "saves.py").write_text(SAVES)
    check_grace(session, graceful([sys.executable, str(tmp_path / "saves.py")]))


@needs_open_mpi
@needs_mpi4py
def test_an_mpi_program(session: Client, tmp_path: Path) -> None:
    (tmp_path / "sum.py").write_text(MPI4PY)
    head, joined = start(session, plans([sys.executable, str(tmp_path / "sum.py")]))
    assert head.end(200) == "succeeded", head.log("launcher-0.err") + head.log("0.err")
    assert joined.end(60) == "succeeded"
    for rank in range(4):
        run = head if rank < 2 else joined
        assert json.loads(run.log(f"{rank}.out")) == [rank, 4, 10, rank]
