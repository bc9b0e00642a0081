"""What happens on one node because of another: an mpirun ends, ranks that others serve, a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rankdeck_profiles.model import Profile, StopPolicy
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.states import NodeState, RankState, RunState
from runs.waiting import LIMIT, finished, launched, wait_for

pytestmark = pytest.mark.timeout(240)


def is_open_mpi() -> bool:
    path = shutil.which("mpirun")
    if path is None:
        return False
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return "Open MPI" in done.stdout + done.stderr


needs_open_mpi = pytest.mark.skipif(not is_open_mpi(), reason="needs Open MPI's mpirun")

ON_ONE_MACHINE = """#!/bin/sh
# mpirun for nodes that are one machine: all ranks are started here, and find their node by their number.
[ "$1" = --version ] && exec mpirun --version
{before}
until [ "$1" = sh ]; do shift; done
exec mpirun {root} --oversubscribe -n 4 "$@"
"""


@pytest.fixture
def mpi(tmp_path):
    """Makes profiles of a shell program under an mpirun."""

    def make(program: str, before: str = "", **changes: object) -> Profile:
        path = tmp_path / "mpirun-here"
        root = "--allow-run-as-root" if os.getuid() == 0 else ""
        path.write_text(ON_ONE_MACHINE.format(before=before, root=root))
        path.chmod(0o755)
        script = tmp_path / "program.sh"
        script.write_text("#!/bin/sh\n" + program)
        script.chmod(0o755)
        values: dict = {
            "name": "mpi",
            "framework": "mpi",
            "command": (str(script),),
            "workdir": str(tmp_path),
            "options": {"mpirun": str(path), "allow_root": True},
            "stop": StopPolicy(grace=10.0),
        }
        return Profile(**{**values, **changes})

    return make


def alive(pid):
    return pid is not None and Path(f"/proc/{pid}/stat").exists()


@needs_open_mpi
def test_the_rank_that_failed_first_is_the_cause_not_mpirun(engine, mpi, pool, tmp_path):
    program = f"""
    if [ $RANK = 3 ]; then
        until [ -e {tmp_path}/go ]; do sleep 0.1; done
        echo 'RuntimeError: shard 3 is torn' >&2
        exit 7
    fi
    trap 'sleep 3; echo saved; exit 0' TERM
    while :; do sleep 0.1; done
    """
    live = engine.attach(launched(engine, mpi(program), pool))
    running = wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    (tmp_path / "go").write_text("")
    snapshot = finished(live)
    assert snapshot.state is RunState.FAILED
    cause = snapshot.cause
    assert (cause.rank, cause.node, cause.kind) == (3, "127.0.0.2", CauseKind.EXIT)
    assert cause.message == "RuntimeError: shard 3 is torn"
    states = [rank.state for rank in snapshot.ranks]
    assert states == [RankState.STOPPED, RankState.STOPPED, RankState.STOPPED, RankState.FAILED]
    assert [rank.exit_code for rank in snapshot.ranks] == [0, 0, 0, 7]  # each had its grace
    assert not any(alive(rank.pid) for rank in running.ranks)
    assert snapshot.launchers[0].ended


@needs_open_mpi
def test_nodes_do_not_wait_for_an_mpirun_that_has_ended(engine, mpi, pool):
    before = "echo 'ORTE was unable to reliably start one or more daemons.' >&2; exit 3"
    snapshot = finished(engine.attach(launched(engine, mpi("true", before), pool)))
    assert snapshot.state is RunState.FAILED
    assert snapshot.cause.node == "127.0.0.1"
    assert "ORTE was unable to reliably start" in snapshot.cause.message
    assert [node.state for node in snapshot.nodes] == [NodeState.FAILED, NodeState.STOPPED]


@needs_open_mpi
def test_a_stop_leaves_ranks_of_an_mpirun_their_grace(engine, mpi, pool):
    program = "trap 'sleep 3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    live = engine.attach(launched(engine, mpi(program), pool))
    wait_for(live, lambda s: all(live.growth(r, "out").size for r in range(4)), "all up")
    assert engine.stop(live.run_id).result(LIMIT).gone
    snapshot = live.snapshot()
    assert snapshot.state is RunState.STOPPED
    assert [rank.exit_code for rank in snapshot.ranks] == [0, 0, 0, 0]


PS = """
import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
print(task, flush=True)
if task == "ps":
    time.sleep(3600)
"""


def test_servers_end_when_those_of_other_nodes_are_done(engine, pool, tmp_path):
    """Nothing listens at the tasks' addresses: the supervisors tell each other."""
    (tmp_path / "ps.py").write_text(PS)
    (tmp_path / "tensorflow.py").write_text("")  # asked for before the start; the program does without
    profile = Profile(
        name="ps",
        framework="tensorflow",
        script=str(tmp_path / "ps.py"),
        workdir=str(tmp_path),
        env={"PYTHONPATH": str(tmp_path)},
        options={"strategy": "ps", "workers": 1, "ps": 1, "chief": False},
        stop=StopPolicy(grace=10.0),
    )
    snapshot = finished(engine.attach(launched(engine, profile, pool)))
    assert snapshot.state is RunState.SUCCEEDED, snapshot.to_json()
    assert {rank.node for rank in snapshot.ranks} == {"127.0.0.1", "127.0.0.2"}
    server = next(rank for rank in snapshot.ranks if rank.signal)
    assert (server.state, server.signal, server.why) == (RankState.SUCCEEDED, "TERM", "")
    assert snapshot.exit_status == 0
