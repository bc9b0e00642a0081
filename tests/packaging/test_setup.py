"""What `make` does before anything is installed, on machines that lack something."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
LIMIT = 60


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder to be the whole PATH: the usual small programs, and whatever the test adds."""
    for name in ("bash", "env", "dirname", "id", "mktemp", "rm", "tail", "cat", "sh", "touch"):
        found = next(path for place in ("/usr/bin", "/bin") if (path := Path(place) / name).exists())
        (tmp_path / name).symlink_to(found)
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(machine: Path, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / "bash", TOOLS / tool, *arguments],
        env={"PATH": str(machine), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
    )


def test_an_old_python_is_told_with_what_was_tried(machine: Path) -> None:
    program(machine, "python3", "exit 1")
    done = run(machine, "make-venv", str(machine / "venv"), "python3")
    assert done.returncode == 1
    assert "needs Python 3.11 or later; tried: python3" in done.stderr
    assert "PYTHON=" in done.stderr


def test_a_python_without_venv_is_told_with_the_package(machine: Path) -> None:
    program(machine, "python3", 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac')
    done = run(machine, "make-venv", str(machine / "venv"), "python3")
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert "python3.12-venv" in done.stderr


def test_a_package_that_can_not_be_installed_is_told_with_the_reason(machine: Path) -> None:
    assert "no apt-get here" in run(machine, "apt-install", "tmux").stderr
    program(machine, "apt-get", "echo E: Unable to locate package tmux >&2; exit 100")
    (machine / "id").unlink()
    program(machine, "id", "echo 1000")
    assert "needs root" in run(machine, "apt-install", "tmux").stderr
    (machine / "id").unlink()
    program(machine, "id", "echo 0")
    done = run(machine, "apt-install", "tmux")
    assert done.returncode == 1
    assert "Unable to locate package tmux" in done.stderr


def test_package_lists_are_fetched_once_if_a_package_is_not_found(machine: Path) -> None:
    (machine / "id").unlink()
    program(machine, "id", "echo 0")
    program(
        machine,
        "apt-get",
        f'echo "$@" >> {machine}/said\n'
        f'case "$*" in *update*) touch {machine}/updated;; *) test -e {machine}/updated;; esac',
    )
    assert run(machine, "apt-install", "tmux", "fish").returncode == 0
    said = (machine / "said").read_text().splitlines()
    assert [("update" in line, "tmux fish" in line) for line in said] == [
        (False, True),
        (True, False),
        (False, True),
    ]


def test_the_given_python_is_used_for_its_torch(machine: Path) -> None:
    program(machine, "mypython", "exit 0")
    assert run(machine, "torch-python", "mypython", "unused", "torch").stdout == f"{machine}/mypython\n"
    assert "no such Python: PYTHON=nosuch" in run(machine, "torch-python", "nosuch", "unused", "torch").stderr
