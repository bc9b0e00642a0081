"""A plain program that tells, byte for byte, what reached it: started by every framework, on real nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from whole.by_hand import run_scripts
from whole.site import TRAINING_LIMIT, Site

PROGRAM = """\
import json, os, sys
names = [name for name in ("RANK", "LOCAL_RANK", "NODE_RANK") if name in os.environ]
place = os.path.join(os.environ["REPORTS"], "-".join(name + "=" + os.environ[name] for name in names))
report = {
    "env": {name.decode("latin-1"): value.decode("latin-1") for name, value in os.environb.items()},
    "argv": [os.fsencode(word).decode("latin-1") for word in sys.argv[1:]],
    "cwd": os.getcwd(),
    "host": os.uname().nodename,
}
with open(place + ".part", "x") as file:
    json.dump(report, file)
os.rename(place + ".part", place + ".json")
"""
MODULES = ("lightning", "transformers", "tensorflow", "jax", "horovod", "deepspeed")
"""The program uses none of them: empty ones satisfy the look at the nodes before the start."""

FRAMEWORKS_PYTHON = os.environ.get("RANKDECK_FRAMEWORKS_PYTHON", "")
"""The interpreter that has the real frameworks, where `make test-frameworks` runs the tests."""
NEEDED = "needs the frameworks: make test-frameworks"


@dataclass(frozen=True)
class Report:
    """What one rank got."""

    env: dict[bytes, bytes]
    argv: list[bytes]
    cwd: str
    host: str
    """What its node calls itself."""

    @classmethod
    def read(cls, path: Path) -> Report:
        told = json.loads(path.read_text())
        env = {name.encode("latin-1"): value.encode("latin-1") for name, value in told["env"].items()}
        return cls(env, [word.encode("latin-1") for word in told["argv"]], told["cwd"], told["host"])


@dataclass(frozen=True)
class Way:
    """A framework with its settings, and how many ranks it is to have on two nodes."""

    framework: str
    ranks: int = 4
    options: dict[str, object] | None = None
    python: str = ""
    """Its interpreter, if it isn't the one with the empty modules."""

    @property
    def is_mpi(self) -> bool:
        return self.framework in ("mpi", "horovod", "deepspeed")

    @property
    def keys(self) -> dict[str, object]:
        """The profile's keys."""
        counted = {} if self.framework == "tensorflow" else {"process_count": self.ranks}
        return {"framework": self.framework, "nodes": 2, "options": self.options or {}, **counted}


MPICH = {"mpirun": shutil.which("mpirun.mpich") or "mpirun.mpich"}
WAYS = {
    "torchrun": Way("torchrun"),
    "launch": Way("launch"),
    "pytorch": Way("pytorch"),
    "transformers": Way("transformers"),
    "transformers-process": Way("transformers", options={"launch": "process"}),
    "accelerate": Way("accelerate", python=FRAMEWORKS_PYTHON),
    "lightning": Way("lightning", 2),
    "lightning-process": Way("lightning", options={"launch": "process"}),
    "jax": Way("jax", 2),
    "tensorflow": Way("tensorflow", 2),
    "tensorflow-chief": Way("tensorflow", 4, options={"chief": True, "workers": 3}),
    "command": Way("command"),
    "mpi": Way("mpi"),
    "mpi-mpich": Way("mpi", options=MPICH, python="/usr/bin/python3"),
    "horovod": Way("horovod"),
    "deepspeed": Way("deepspeed"),
}
"""Every framework, each as it starts its ranks."""


def parameters(names: Iterable[str]) -> list[Any]:
    """The names of ways as a test's parameters; what needs the real frameworks runs where those are."""
    real = [pytest.mark.frameworks, pytest.mark.skipif(not FRAMEWORKS_PYTHON, reason=NEEDED)]
    return [pytest.param(name, marks=real if name == "accelerate" else []) for name in names]


class Bench:
    """The program on all nodes of a site's cluster, and its reports."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._folder = site.cluster.shared / "bench" / site.shell.folder.name
        self._folder.mkdir(parents=True)
        self.program = self._folder / "report.py"
        self.program.write_text(PROGRAM)
        self._python = _interpreter(self._folder / "python")
        self._reports = self._folder / "reports"
        self._reports.mkdir()

    def save(
        self, name: str, way: Way, *args: str, env: dict[str, str] | None = None, **keys: object
    ) -> None:
        """Saves a profile that runs the program in this way."""
        keys = {**way.keys, **keys}
        if way.is_mpi:
            ssh_args = self.site.key_between_nodes()
            keys["options"] = {"allow_root": True, "ssh_args": ssh_args, **(way.options or {})}
        self.site.save(
            name, None if "command" in keys else self.program, *args,
            python=way.python or str(self._python),
            env={**(env or {}), "REPORTS": str(self._reports)},
            **keys,
        )  # fmt: skip

    def run(self, name: str) -> dict[str, Report]:
        """`rankdeck run`; every rank's report,."""
        self._forget()
        done = self.site.follow("run", name, limit=TRAINING_LIMIT)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return self._collect()

    def by_hand(self, name: str, start: str) -> dict[str, Report]:
        """The printed scripts, each started on its node by `start`: shell text before the script's path."""
        self._forget()
        for node, result in run_scripts(self.site, name, start=start, limit=TRAINING_LIMIT).items():
            assert result.returncode == 0, (node, result)
        return self._collect()

    def _forget(self) -> None:
        for old in self._reports.iterdir():
            old.unlink()

    def _collect(self) -> dict[str, Report]:
        return {path.stem: Report.read(path) for path in sorted(self._reports.iterdir())}


def _interpreter(folder: Path) -> Path:
    """An environment beside the one of the tests, whose packages it sees, with the empty modules."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in MODULES:
        (packages / f"{name}.py").write_text("")
    return folder / "bin/python"
