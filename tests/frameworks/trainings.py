"""Profiles of the programs here, run, and what their ranks said at their end."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from whole.site import Site

PYTHON = os.environ.get("RANKDECK_FRAMEWORKS_PYTHON", "")
"""The interpreter that has the frameworks; `make test-frameworks` makes one."""
PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 600.0
"""Seconds for four processes to import a framework on two cores, and train."""
SAID = re.compile(r"trained rank=(\d+) world=(\d+) weight=(-?[0-9.]+)")


def needs(*modules: str) -> None:
    """Skip, saying so, where the interpreter lacks a module."""
    if not PYTHON:
        pytest.skip("needs the frameworks: make test-frameworks")
    find = (
        "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(n) is None for n in sys.argv[1:]))"
    )
    if subprocess.run([PYTHON, "-c", find, *modules], capture_output=True, timeout=120).returncode:
        pytest.skip(f"{PYTHON} lacks one of {', '.join(modules)}")


def trained(site: Site, name: str) -> list[tuple[int, int, str]]:
    """Run a saved profile; rank, world size and result of every line that says so."""
    done = site.follow("run", name, limit=LIMIT)
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr
    shown = site.show()
    assert shown["state"] == "succeeded"
    site.assert_nothing_runs()
    return sorted((int(rank), int(world), weight) for rank, world, weight in SAID.findall(done.stdout))


def all_alike(found: list[tuple[int, int, str]], world: int) -> None:
    """Every rank of a world said once what it ended with, and it is the same."""
    assert [rank for rank, _, _ in found] == list(range(world))
    assert {size for _, size, _ in found} == {world}
    assert len({weight for _, _, weight in found}) == 1
