"""Every framework's printed scripts, run with stand-ins for the launchers: each rank gets what it must."""

import os
import subprocess
import sys
import time
from pathlib import Path

import launcher_stand_ins
import pytest
from awkward import NASTY, VALUES
from launcher_stand_ins import LIMIT, SHELLS, run
from plan_samples import facts, gpus, pool, profile

from rankdeck_profiles import frameworks, placeholders
from rankdeck_profiles.facts import MpiFacts, MpiFamily
from rankdeck_profiles.model import BackendKind
from rankdeck_profiles.placeholders import NAMES
from rankdeck_profiles.planner import plan
from rankdeck_profiles.render import as_scripts

LEAKED = {
    "SLURM_CPU_BIND": "quiet",
    "LOCAL_RANK": "9",
    "PET_NNODES": "7",
    "AZUREML_EXPERIMENT_ID": "e",
    "OMPI_MCA_orte_hnp_uri": "x",
    "PMI_RANK": "9",
    "TF_CONFIG": "{}",
}
MPIS = {
    "openmpi4": (MpiFamily.OPEN_MPI, "4.1.4"),
    "openmpi5": (MpiFamily.OPEN_MPI, "5.0.6"),
    "mpich": (MpiFamily.MPICH, "4.0.2"),
    "intel": (MpiFamily.INTEL, "2021.14"),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    launcher_stand_ins.put(folder)
    return folder


def made(bench: Path, framework: str, slots=(2, 2), mpi: str = "openmpi4", **more):
    names = [f"n{number}" for number in range(1, len(slots) + 1)]
    family, version = MPIS[mpi]
    found = {
        name: facts(
            name,
            gpus=gpus(count),
            interface=f"eth{name[-1]}",
            home="/home/al",
            mpi=MpiFacts(family, version, str(bench / "mpirun")),
            uid=1000,
        )
        for name, count in zip(names, slots, strict=True)
    }
    asked = profile(
        framework,
        **{
            "script": "report.py",
            "workdir": str(bench),
            "python": str(bench / "python"),
            **more,
            "env": {"OUT": str(bench / "out"), **more.get("env", {})},
        },
    )
    return plan(asked, pool(f"n[1-{len(names)}]"), found)


CASES = [(name, {}, "openmpi4") for name in frameworks.names()]
CASES += [("mpi", {}, mpi) for mpi in MPIS if mpi != "openmpi4"]
CASES += [
    ("lightning", {"launch": "process"}, "openmpi4"),
    ("transformers", {"launch": "process"}, "openmpi4"),
    ("torchrun", {"max_restarts": 1}, "openmpi4"),
    ("tensorflow", {"workers": 3, "chief": True}, "openmpi4"),
]


def world_of(framework, options):
    one_a_node = framework in ("jax", "command", "lightning", "tensorflow")
    return 2 if one_a_node and not options else 4


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("framework", "options", "mpi"), CASES)
def test_words_and_values_arrive_and_leaks_do_not(bench, framework, options, mpi, shell):
    plan_made = made(bench, framework, mpi=mpi, options=options, args=tuple(NASTY), env=VALUES)
    reports = run(bench, plan_made, shell, **LEAKED)
    assert len(reports) == plan_made.world_size == world_of(framework, options)
    per_node = framework == "lightning" and not options
    for name, report in reports.items():
        env = report["env"]
        assert {key: env[key] for key in VALUES} == VALUES
        values = {key: env[key] for key in NAMES if key in env}
        if per_node:
            assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(env)
            node = int(env["NODE_RANK"])
            values.update(RANK=str(node), LOCAL_RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1")
        else:
            assert name == env["RANK"]
            each = plan_made.world_size // 2
            assert int(env["LOCAL_RANK"]) == int(env["RANK"]) % each
            assert int(env["NODE_RANK"]) == int(env["RANK"]) // each
        assert tuple(report["argv"]) == placeholders.fill(NASTY, values)
        assert env["NCCL_SOCKET_IFNAME"] == f"eth{int(env['NODE_RANK']) + 1}"
        assert env["MASTER_ADDR"] == "10.0.0.1"
        assert report["cwd"] == str(bench)
        assert not (set(LEAKED) - {"LOCAL_RANK", "PMI_RANK", "TF_CONFIG"}) & set(env)
        assert env.get("LOCAL_RANK") != "9"
    assert not Path("/tmp/rankdeck-pwned").exists()


@pytest.mark.parametrize("mpi", MPIS)
def test_uneven_slots_under_each_mpi(bench, mpi):
    reports = run(bench, made(bench, "horovod", slots=(1, 3), mpi=mpi))
    seen = {
        int(rank): (env["NODE_RANK"], env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"])
        for rank, env in ((rank, report["env"]) for rank, report in reports.items())
    }
    assert seen == {0: ("0", "0", "1"), 1: ("1", "0", "3"), 2: ("1", "1", "3"), 3: ("1", "2", "3")}
    assert all(report["env"]["HOROVOD_CONTROLLER"] == "mpi" for report in reports.values())


@pytest.mark.parametrize("mpi", MPIS)
def test_env_from_reaches_every_rank_of_an_mpirun_and_setup_runs_there(bench, mpi):
    setup = ("export FROM_SETUP='a b'", "cd /", "if [[ -n $HOME ]]; then export BASHISM=1; fi")
    plan_made = made(bench, "mpi", mpi=mpi, env_from=("MY_KEY",), setup=setup)
    assert "k'1" not in "".join(as_scripts(plan_made).values())
    for report in run(bench, plan_made, MY_KEY="k'1").values():
        env = report["env"]
        assert (env["MY_KEY"], env["FROM_SETUP"], env["BASHISM"]) == ("k'1", "a b", "1")
        assert report["cwd"] == str(bench)


def test_a_world_of_one_under_accelerate(bench):
    reports = run(bench, made(bench, "accelerate", slots=(1,), args=("--r=$RANK", "$$5")))
    assert reports["0"]["argv"] == ["--r=0", "$5"]


def test_tensorflow_tasks_that_serve_end_with_the_chief(bench):
    (bench / "serve.py").write_text(
        "import json, os, signal, sys, time\n"
        "task = json.loads(os.environ['TF_CONFIG'])['task']\n"
        "if task['type'] == 'chief':\n"
        "    time.sleep(1)\n"
        "    sys.exit(0)\n"
        "time.sleep(600)\n"
    )
    plan_made = made(
        bench, "tensorflow", slots=(1,), script="serve.py", options={"strategy": "ps", "workers": 1, "ps": 1}
    )
    script = bench / "serve.sh"
    script.write_text(as_scripts(plan_made)["n1"])
    began = time.monotonic()
    done = subprocess.run(
        ["sh", str(script)],
        env={"PATH": os.environ["PATH"], "HOME": "/"},
        capture_output=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < LIMIT / 2
    assert b"ended with status" not in done.stderr


@pytest.mark.skipif(
    "Open MPI) 4"
    not in subprocess.run(["sh", "-c", "mpirun --version 2>&1; true"], capture_output=True, text=True).stdout,
    reason="no Open MPI 4 here",
)
def test_open_mpi_itself_runs_the_script(tmp_path):
    launcher_stand_ins.put(tmp_path)
    asked = profile(
        "mpi",
        script="report.py",
        workdir=str(tmp_path),
        python=sys.executable,
        args=tuple(NASTY),
        env={"OUT": str(tmp_path / "out"), **VALUES},
        options={"allow_root": True},
    )
    local = pool("127.0.0.[1-2]", backend=BackendKind.LOCAL, slots=2)
    reports = run(tmp_path, plan(asked, local, None), **LEAKED, SLURM_JOB_ID="7")
    assert sorted(reports) == ["0", "1", "2", "3"]
    for report in reports.values():
        env = report["env"]
        assert {key: env[key] for key in VALUES} == VALUES
        assert env["OMPI_COMM_WORLD_RANK"] == env["RANK"]
        assert (env["NODE_RANK"], env["LOCAL_RANK"]) == tuple(map(str, divmod(int(env["RANK"]), 2)))
        assert tuple(report["argv"]) == placeholders.fill(NASTY, env)
