"""The agent's zip with compiled modules: made by the first session, taken by the next."""

from __future__ import annotations

import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from agent_client import Client

LIMIT = 60.0


def made(folder: Path) -> Path:
    """The compiled zip, once it is there."""
    deadline = time.monotonic() + LIMIT
    while not (found := list(folder.glob("compiled-*.zip"))):
        assert time.monotonic() < deadline, f"no compiled zip; there is {list(folder.iterdir())}"
        time.sleep(0.05)
    return found[0]


def test_the_first_session_makes_it_for_the_next(connect: Callable[..., Client], folder: Path) -> None:
    connect(python=sys.executable).hello()
    compiled = made(folder)
    assert compiled.stat().st_mode & 0o777 == 0o600
    names = zipfile.ZipFile(compiled).namelist()
    assert {"rankdeck_agent/session.py", "rankdeck_agent/session.pyc", "__main__.pyc"} <= set(names)
    before = compiled.stat().st_ino
    connect(python=sys.executable).ask("ping")
    assert compiled.stat().st_ino == before


def test_the_next_session_runs_from_it(connect: Callable[..., Client], folder: Path) -> None:
    connect(python=sys.executable).hello()
    compiled = made(folder)
    # Only a session that takes its modules from there can know this protocol number.
    with zipfile.ZipFile(compiled) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(compiled, "w") as archive:
        for name, data in kept.items():
            if name != "rankdeck_agent/wire.pyc":
                archive.writestr(name, data.replace(b"PROTOCOL = 1\n", b"PROTOCOL = 7\n"))
    assert connect(python=sys.executable).hello()["protocol"] == 7


def test_a_damaged_one_is_made_again(connect: Callable[..., Client], folder: Path) -> None:
    connect(python=sys.executable).hello()
    compiled = made(folder)
    compiled.write_bytes(compiled.read_bytes()[:1000])
    connect(python=sys.executable).ask("ping")
    assert zipfile.is_zipfile(made(folder))
