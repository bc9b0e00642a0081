"""What must not be in any file of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

LEFTOVERS = re.compile(
    "|".join(
        [
            r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",  # written so that this file does not find itself
            r"<" + r"<<<<<<|>" + r">>>>>>",
            re.escape(str(REPOSITORY)) + r"\b",  # a path of the machine it was written on
        ]
    )
)


def files() -> list[Path]:
    """The project's text files: tracked by git, or about to be; without git (a source archive), all."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if listed.returncode == 0:
        found = [REPOSITORY / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        found = [path for path in REPOSITORY.rglob("*") if not re.search(r"/\.(?:git|venv[^/]*)/", str(path))]
    return [path for path in found if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


def test_nothing_unfinished_is_left() -> None:
    found = []
    for path in files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if LEFTOVERS.search(line):
                found.append(f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs"])
def test_links_between_the_docs_lead_somewhere(name: str) -> None:
    top = REPOSITORY / name
    for page in [top] if top.is_file() else sorted(top.glob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_source_files_stay_small() -> None:
    for folder in ("tui", "runs", "backends", "profiles"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            lines = len(path.read_text().splitlines())
            assert lines <= 400, (
                f"{path.relative_to(REPOSITORY)} has {lines} lines: split it by reason to change"
            )
