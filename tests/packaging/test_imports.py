"""What gets imported when, seen in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60
COMMAND = Path(sys.executable).with_name("rankdeck")

WITHOUT_TEXTUAL = """
import sys
for name in ("textual", "rich"):
    sys.modules[name] = None  # importing it is an error from here on
"""


def fresh(code: str, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=LIMIT, **settings
    )


def test_everything_below_the_screens_works_without_textual() -> None:
    code = (
        WITHOUT_TEXTUAL
        + """
import importlib, pkgutil
count = 0
for root in ("rankdeck_profiles", "rankdeck_backends", "rankdeck_runs", "rankdeck_tui.cli"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, root + "."):
        if not module.name.startswith("rankdeck_backends.agent"):  # runs on nodes, by itself
            importlib.import_module(module.name)
            count += 1
print(count)
"""
    )
    done = fresh(code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["runs"],
        ["runs", "--json"],
        ["profiles"],
        ["pools"],
        ["plan", "it", "--offline"],
    ],
)
def test_commands_work_without_textual(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/it.toml").write_text('framework = "torchrun"\nscript = "train.py"\n')
    code = WITHOUT_TEXTUAL + "from rankdeck_tui.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    environment = {"RANKDECK_CONFIG": str(tmp_path), "RANKDECK_HOME": str(tmp_path / "data")}
    done = fresh(code, *arguments, env=environment)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["runs"], ["runs", "--json"]])
def test_quick_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom rankdeck_tui.cli.main import main\nmain(sys.argv[1:])\n"
        "print('imported', *sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = fresh(code, *arguments, env={"RANKDECK_HOME": str(tmp_path)})
    imported = set(done.stderr.split("imported ")[-1].split())
    assert "rankdeck_tui.cli.main" in imported
    heavy = {
        "asyncio",
        "asyncssh",
        "textual",
        "rich",
        "msgspec",
        "tomli",
        "tomlkit",
        "platformdirs",
        "ClusterShell",
    }
    heavy |= {"typing", "dataclasses", "pathlib", "subprocess", "inspect", "importlib.metadata"}
    assert not heavy & imported


def test_the_local_backend_does_not_wait_for_asyncssh() -> None:
    code = (
        "import sys, rankdeck_runs.engine, rankdeck_backends\n"
        "from rankdeck_profiles.model import BackendKind\n"
        "rankdeck_backends.open_backend(BackendKind.LOCAL)\n"
        "assert 'asyncssh' not in sys.modules"
    )
    done = fresh(code)
    assert done.returncode == 0, done.stderr


def test_other_packages_with_our_folders_names_do_not_get_in_the_way(tmp_path: Path) -> None:
    for name in ("tui", "runs", "backends", "profiles", "cli", "agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('the wrong {name}')\n")
    environment = {
        "PYTHONPATH": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "RANKDECK_HOME": str(tmp_path / "data"),
        "RANKDECK_CONFIG": str(tmp_path / "config"),
    }
    for command in ([COMMAND, "--version"], [COMMAND, "runs"], [COMMAND, "pools"]):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == 0, done.stderr
    script = "import rankdeck_tui.app, rankdeck_runs.engine, rankdeck_backends.ssh, rankdeck_profiles.library"
    done = fresh(script, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
