"""What is in the wheel, and what is not."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from rankdeck_tui import __version__

REPOSITORY = Path(__file__).parents[2]
PACKAGES = {
    "rankdeck_tui": REPOSITORY / "tui/rankdeck_tui",
    "rankdeck_runs": REPOSITORY / "runs/rankdeck_runs",
    "rankdeck_backends": REPOSITORY / "backends/rankdeck_backends",
    "rankdeck_profiles": REPOSITORY / "profiles/rankdeck_profiles",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", folder, REPOSITORY],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_every_source_file_is_in_it_as_it_is(wheel: zipfile.ZipFile) -> None:
    for package, folder in PACKAGES.items():
        sources = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert folder / "py.typed" in sources
        for path in sources:
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            assert wheel.read(name) == path.read_bytes(), name


def test_the_agent_is_in_it(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if name.startswith("rankdeck_backends/agent/")}
    assert {
        f"rankdeck_backends/agent/{name}.py" for name in ("__main__", "session", "supervisor", "shim")
    } <= names


def test_the_demo_s_script_is_that_of_the_examples(wheel: zipfile.ZipFile) -> None:
    assert wheel.read("rankdeck_tui/demo/ddp.py") == (REPOSITORY / "examples/ddp.py").read_bytes()


def test_nothing_else_is_in_it(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {*PACKAGES, f"rankdeck-{__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if name.endswith(".pyc")]


def test_its_metadata(wheel: zipfile.ZipFile) -> None:
    info = f"rankdeck-{__version__}.dist-info"
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == (
        "rankdeck",
        __version__,
        ">=3.11",
    )
    assert {"torch", "mpi"} <= set(metadata.get_all("Provides-Extra"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "rankdeck = rankdeck_tui.cli.main:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_the_programs_of_active_tests_are_those_of_the_examples(wheel: zipfile.ZipFile) -> None:
    for path in (REPOSITORY / "examples/active").glob("*.py"):
        assert wheel.read(f"rankdeck_runs/active_programs/{path.name}") == path.read_bytes()
