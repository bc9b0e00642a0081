"""Programs in the place of torchrun, accelerate and mpirun, that do with a command line what those do.

Each starts the ranks one after the other and refuses flags that the real one does not have. With them printed
scripts are run on this machine.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.render import as_scripts

LIMIT = 120
"""Seconds for a script."""
SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]

REPORT = """\
import json, os, sys
name = os.environ.get("RANK", "node" + os.environ.get("NODE_RANK", ""))
out = os.path.join(os.environ["OUT"], name + ".json")
with open(out, "w") as stream:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}, stream)
"""

# torch/distributed/run.py and launch.py; elastic/utils/api.py, `macros`; accelerate/commands/launch.py.
PYTHON = """\
import os, subprocess, sys
from string import Template
argv = sys.argv[1:]
module = argv[1] if argv[:1] == ["-m"] else ""
ends = {"torch.distributed.run": "--no-python", "torch.distributed.launch": "--no-python",
        "accelerate.commands.launch": "--no_python"}
if module not in ends:
    os.execv(sys.executable, [sys.executable, *argv])
words = argv[2:argv.index(ends[module])]
program = argv[argv.index(ends[module]) + 1:]
flags = dict(word[2:].partition("=")[::2] for word in words)
assert all(word.startswith("--") for word in words), words
if module.startswith("accelerate"):
    assert int(flags["num_processes"]) % int(flags["num_machines"]) == 0
    nodes, node, world = (int(flags[n]) for n in ("num_machines", "machine_rank", "num_processes"))
    count, addr, port = world // nodes, flags["main_process_ip"], flags["main_process_port"]
    if "multi_gpu" not in flags:
        assert world == 1
        sys.exit(subprocess.run(program).returncode)
    assert world > 1
else:
    if module.endswith("launch"):
        assert "use-env" in flags
    count, nodes = int(flags["nproc-per-node"]), int(flags["nnodes"])
    if flags.get("rdzv-backend") == "c10d":
        assert not {"node-rank", "master-addr", "master-port"} & set(flags)
        node = int(os.environ["NODE_RANK"])
        assert flags["rdzv-conf"] == ("is_host=1" if node == 0 else "is_host=0")
        addr, _, port = flags["rdzv-endpoint"].rpartition(":")
    else:
        node, addr, port = int(flags["node-rank"]), flags["master-addr"], flags["master-port"]
for local in range(count):
    env = dict(os.environ, RANK=str(node * count + local), LOCAL_RANK=str(local))
    env.update(WORLD_SIZE=str(nodes * count), LOCAL_WORLD_SIZE=str(count), MASTER_ADDR=addr, MASTER_PORT=port)
    env["TORCHELASTIC_RUN_ID"] = flags.get("rdzv-id", "none")
    done = [program[0], *(Template(word).safe_substitute(local_rank=str(local)) for word in program[1:])]
    subprocess.run(done, env=env, check=True)
"""

# mpirun(1) of Open MPI, mpiexec(1) of MPICH and the developer reference of Intel MPI. A lone ":" begins
# another program, as it does there.
MPIRUN = """\
import os, subprocess, sys
OPEN_MPI = {"--host": 1, "-np": 1, "--map-by": 1, "--bind-to": 1, "--mca": 2, "--prtemca": 2, "-x": 1,
            "--noprefix": 0}
HYDRA = {"-hosts": 1, "-n": 1, "-launcher": 1, "-iface": 1, "-bind-to": 1, "-genvlist": 1, "-ppn": 1,
         "-machinefile": 1, "-bootstrap": 1}
words = sys.argv[1:]
known = OPEN_MPI if "--host" in words else HYDRA
given = []
while words[0].startswith("-"):
    flag = words.pop(0)
    given.append((flag, [words.pop(0) for _ in range(known[flag])]))
assert ":" not in words, "a second program"
options = {flag: value for flag, value in given}
open_mpi = known is OPEN_MPI
if open_mpi:
    listed = options["--host"][0].split(",")
    passed = [value[0] for flag, value in given if flag == "-x"]
elif "-machinefile" in options:
    listed = open(options["-machinefile"][0]).read().split()
else:
    each = options.get("-ppn", [""])[0]
    listed = [host if ":" in host else host + ":" + each for host in options["-hosts"][0].split(",")]
if not open_mpi:
    passed = options["-genvlist"][0].split(",")
hosts = [(host, int(count)) for host, _, count in (entry.rpartition(":") for entry in listed)]
assert sum(count for _, count in hosts) == int(options["-np" if open_mpi else "-n"][0])
rank = 0
for number, (host, count) in enumerate(hosts):
    for local in range(count):
        # What ssh gives on the other nodes, leftovers in its start-up files included.
        env = {"HOME": os.environ["HOME"], "PATH": os.defpath, "SLURM_CPU_BIND": "x", "LOCAL_RANK": "9",
               "PET_NNODES": "7", "AZUREML_EXPERIMENT_ID": "e"}
        if number == 0 and open_mpi:
            env = dict(os.environ)
        env.update({name: os.environ[name] for name in passed if name in os.environ})
        size = str(sum(count for _, count in hosts))
        if open_mpi:
            env.update(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_RANK=str(local),
                       OMPI_COMM_WORLD_SIZE=size, OMPI_COMM_WORLD_NODE_RANK=str(local))
        else:
            env.update(PMI_RANK=str(rank), PMI_SIZE=size, MPI_LOCALRANKID=str(local))
        subprocess.run(words, env=env, check=True, cwd="/")
        rank += 1
"""


def put(folder: Path) -> None:
    """Write them into a folder that is then first on PATH; `python` and `mpirun` are their names."""
    for name, text in (("python", PYTHON), ("mpirun", MPIRUN)):
        program = folder / name
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o755)
    (folder / "report.py").write_text(REPORT)
    (folder / "out").mkdir()


def run(folder: Path, made: LaunchPlan, shell: str = "sh", **env: str) -> dict[str, dict[str, Any]]:
    """Run all nodes' scripts, one after the other; what each rank reported, by its number.

    Args:
        folder: where the stand-ins are.
        made: the plan.
        shell: what runs the scripts.
        env: variables of the login beside PATH and HOME.
    """
    out = folder / "out"
    for old in out.iterdir():
        old.unlink()
    for node, text in as_scripts(made).items():
        script = folder / f"{node}.sh"
        script.write_text(text, newline="")
        done = subprocess.run(
            [shell, str(script)],
            env={"PATH": os.environ["PATH"], "HOME": "/home/some one", "OUT": str(out), **env},
            capture_output=True,
            timeout=LIMIT,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr.decode()
    return {path.stem: json.loads(path.read_text()) for path in out.iterdir()}
