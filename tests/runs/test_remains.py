"""What earlier runs have left on the nodes is told before another one is launched there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.readings import CommandReading, Readings
from rankdeck_runs import events
from rankdeck_runs.engine import Engine
from rankdeck_runs.remains import remains
from rankdeck_runs.states import RunState
from runs.waiting import LIMIT, finished, launched, wait_for


def told_of(run_id, engine, program, pool) -> list[str]:
    """What a launch is told of that run; other tests' runs may be on this machine, too."""
    found = engine.prepare(program("pass\n"), pool).result(LIMIT).remains
    assert {node for node, _ in found} <= {"127.0.0.1"}  # both nodes are one machine
    return [said for _, said in found if run_id in said]


def test_a_process_of_a_run_that_has_ended_is_told_of_and_stop_ends_it(engine, home, program, pool):
    run_id = launched(engine, program("print('done')\n"), pool)
    assert finished(engine.attach(run_id)).state is RunState.SUCCEEDED
    told = [e for e in events.read(home.find(run_id).events_path) if e["ev"] == "start_accepted"]
    marks = {
        "RANKDECK_RUN_ID": run_id,
        "RANKDECK_NODE": f"{run_id}/0",
        "RANKDECK_RANK_DIR": os.path.realpath(next(e["dir"] for e in told if e["node"] == "127.0.0.1")),
    }
    # One that no sweep could end at the time: it had hung in the kernel.
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, **marks})
    try:
        assert told_of(run_id, engine, program, pool) == [
            f"run {run_id} has ended and left processes: {left.pid} sleep 600;"
            f" `rankdeck stop --force {run_id}` ends them"
        ]
        assert engine.stop(run_id, force=True).result(LIMIT).gone
        assert left.wait(LIMIT) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()
    assert told_of(run_id, engine, program, pool) == []


def test_a_run_that_is_guarded_is_no_remainder_and_one_that_is_not_is(engine, home, program, pool):
    first = Engine(home)  # closed before the kill: who follows would revive the supervisor
    try:
        run_id = launched(first, program("time.sleep(600)\n"), pool)
        wait_for(first.attach(run_id), lambda s: s.state is RunState.RUNNING, "a running run")
    finally:
        first.close()
    assert told_of(run_id, engine, program, pool) == []
    told = [e for e in events.read(home.find(run_id).events_path) if e["ev"] == "start_accepted"]
    state = Path(next(e["dir"] for e in told if e["node"] == "127.0.0.1"), "supervisor.json")
    said: list[str] = []
    deadline = time.monotonic() + LIMIT
    while not said:  # a follow that has not heard of its end may revive it once more
        assert time.monotonic() < deadline
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(state.read_text())["pid"], signal.SIGKILL)
        said = told_of(run_id, engine, program, pool)
    assert len(said) == 1
    assert said[0].startswith(f"run {run_id} goes on without its supervisor: ")


def facts(name: str, machine: str, left: object, readings: Readings | None = None) -> NodeFacts:
    return NodeFacts(
        name,
        name,
        "/home/a",
        "10.0.0.1",
        None,
        8,
        1024,
        machine=machine,
        raw={"remains": left},
        readings=readings,
    )


def test_each_machine_is_told_of_once_with_gpu_memory_where_it_is_known():
    asked = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv")
    smi = Readings(commands=(CommandReading(asked, 0, "GPU-1, 7, python, 40960 MiB\n"),))
    left = [{"run": "r1", "pid": pid, "cmd": "python train.py", "ended": True} for pid in (7, 8, 9, 10, 11)]
    told = remains([facts("n1", "a", left, smi), facts("n2", "a", left, smi), facts("n3", "b", None)])
    assert told == (
        (
            "n1",
            "run r1 has ended and left processes: 7 python train.py (40960 MiB of GPU memory), "
            "8 python train.py, 9 python train.py and 2 more; `rankdeck stop --force r1` ends them",
        ),
    )
