"""Each framework trains for real over the nodes of the test cluster, all ranks ending with one model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from whole.site import DDP, Site

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

PYTHON = os.environ.get("RANKDECK_FRAMEWORKS_PYTHON", "")
"""The interpreter that has the frameworks; `make test-frameworks` makes one."""
PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 600.0
"""Seconds for four processes to import a framework on two cores, and train."""
SAID = re.compile(r"trained rank=(\d+) world=(\d+) weight=(-?[0-9.]+)")


@pytest.fixture
def site(tmp_path: Path, cluster4: Cluster) -> Iterator[Site]:
    made = Site.make(tmp_path, cluster4)
    yield made
    made.shell.end()


def needs(*modules: str) -> None:
    """Skip, saying so, where the interpreter lacks a module."""
    if not PYTHON:
        pytest.skip("needs the frameworks: make test-frameworks")
    for module in modules:
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, timeout=120).returncode:
            pytest.skip(f"{PYTHON} has no {module}")


def trained(site: Site, name: str) -> list[tuple[int, int, str]]:
    """Run a saved profile; rank, world size and result of every line that says so."""
    done = site.follow("run", name, limit=LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shown = site.show()
    assert shown["state"] == "succeeded"
    site.assert_nothing_runs()
    return sorted((int(rank), int(world), weight) for rank, world, weight in SAID.findall(done.stdout))


def all_alike(found: list[tuple[int, int, str]], world: int) -> None:
    assert [rank for rank, _, _ in found] == list(range(world))
    assert {size for _, size, _ in found} == {world}
    assert len({weight for _, _, weight in found}) == 1


@pytest.mark.parametrize(
    ("launch", "per_node", "ranks"), [("node", 1, 2), ("process", 2, 4)], ids=["node", "process"]
)
def test_lightning(site: Site, launch: str, per_node: int, ranks: int) -> None:
    needs("lightning")
    keys = {"procs_per_node": 2} if launch == "process" else {}
    site.save(
        "lightning", PROGRAMS / "lightning_fit.py", "2", "2" if launch == "process" else "1",
        framework="lightning", python=PYTHON, nodes=2, options={"launch": launch}, **keys,
    )  # fmt: skip
    all_alike(trained(site, "lightning"), ranks)


def test_lightning_starts_its_further_processes(site: Site) -> None:
    needs("lightning")
    site.save(
        "lightning", PROGRAMS / "lightning_fit.py", "2", "2", framework="lightning", python=PYTHON, nodes=2
    )
    all_alike(trained(site, "lightning"), 4)


@pytest.mark.parametrize("launch", ["torchrun", "process"])
def test_transformers(site: Site, launch: str) -> None:
    needs("transformers", "accelerate")
    site.save(
        "hf", PROGRAMS / "transformers_fit.py", "--max_steps", "4", framework="transformers", python=PYTHON,
        nodes=2, procs_per_node=2, communication_backend="gloo", options={"launch": launch},
    )  # fmt: skip
    all_alike(trained(site, "hf"), 4)


def test_accelerate(site: Site) -> None:
    needs("accelerate")
    keys = {"framework": "accelerate", "nodes": 2, "procs_per_node": 2}
    site.save("acc", PROGRAMS / "accelerate_fit.py", python=PYTHON, **keys)
    all_alike(trained(site, "acc"), 4)


def test_jax(site: Site) -> None:
    needs("jax")
    site.save("jax", PROGRAMS / "jax_sum.py", framework="jax", python=PYTHON, nodes=2)
    found = trained(site, "jax")
    all_alike(found, 2)
    assert float(found[0][2]) == 3.0


def test_mpi(site: Site) -> None:
    needs("mpi4py.MPI")
    keys: dict[str, object] = {"framework": "mpi", "nodes": 2, "procs_per_node": 2}
    # mpirun's ssh from node to node: the cluster's nodes know no host keys and have no key of their own.
    key = site.cluster.shared / "key-of-the-nodes"
    shutil.copy(site.cluster.identity, key)
    ssh = f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    keys["options"] = {"allow_root": True, "ssh_args": ssh}
    site.save("mpi", PROGRAMS / "mpi_sum.py", python=PYTHON, **keys)
    found = trained(site, "mpi")
    all_alike(found, 4)
    assert float(found[0][2]) == 10.0


def test_the_old_launch_module(site: Site) -> None:
    needs("torch")
    quick = ["--steps", "6", "--steps-per-epoch", "3", "--step-sleep", "0"]
    site.save("old", DDP, *quick, framework="launch", python=PYTHON, nodes=2, procs_per_node=2)
    done = site.follow("run", "old", limit=LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("rankdeck-demo ok world=4") == 4
