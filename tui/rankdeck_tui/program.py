"""What a person names to be run, as a profile's keys; and a look into the script, if it can be read here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdeck_profiles.frameworks.guess import Guess, guess, imported

PROGRAM_KEYS = ("script", "module", "command")
"""A profile's keys of which exactly one says what is run."""

MOST_BYTES: int = 1 << 20
"""Of a script that is looked into; more is no script that a person wrote."""

MOST_MODULES = 64
"""Of a script's own modules are looked into."""

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")


@dataclass(frozen=True, slots=True)
class Program:
    """What is run."""

    keys: Mapping[str, Any]
    """`script`, `module` or `command` of a profile, and `python` if an interpreter was named by its path."""
    args: tuple[str, ...]
    """Its arguments."""


def program_of(words: Sequence[str]) -> Program:
    """A command line as people type it: `train.py --lr 1`, `python -m pkg.train`, `./solver 8`.

    Args:
        words: at least one.
    """
    keys: dict[str, Any] = {}
    rest = list(words)
    if _PYTHON.fullmatch(rest[0]) and rest[1:2] == ["-u"] and len(rest) > 2:
        del rest[1]  # ranks' output is unbuffered anyway
    if _PYTHON.fullmatch(rest[0]) and len(rest) > 1 and (rest[1] == "-m" or not rest[1].startswith("-")):
        python = rest.pop(0)
        if "/" in python:
            keys["python"] = python
        if rest[0] != "-m":
            return Program({"script": rest[0], **keys}, tuple(rest[1:]))
    if rest[0] == "-m" and len(rest) > 1:
        return Program({"module": rest[1], **keys}, tuple(rest[2:]))
    if rest[0].endswith(".py"):
        return Program({"script": rest[0], **keys}, tuple(rest[1:]))
    return Program({"command": [rest[0]], **keys}, tuple(rest[1:]))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look into the program gave."""

    name: str
    """The script or module, as named."""
    guess: Guess | None
    found: bool
    """False: there is no such file here. It may be there on the nodes."""

    @property
    def says(self) -> str:
        """It in a sentence, for the person; empty: there is nothing to say."""
        if not self.found:
            return f"{self.name} is not found from here; fine if it is there on the nodes"
        return f"{self.name} {self.guess.why}" if self.guess else ""


def look_into(program: Program, folder: Path) -> Seen:
    """Look into the script for the framework that it is written for.

    Args:
        program: what is run.
        folder: where relative names begin.
    """
    keys = program.keys
    if "module" in keys:
        name = f"-m {keys['module']}"
        stem = str(keys["module"]).replace(".", "/")
        candidates = [f"{stem}.py", f"{stem}/__main__.py"]
    else:
        name = str(keys["script"] if "script" in keys else keys["command"][0])
        if "command" in keys and "/" not in name:
            return Seen(name, None, True)  # found through PATH on the nodes
        candidates = [name]
    for candidate in candidates:
        text = _read(folder / os.path.expanduser(candidate))
        if text is not None:
            beside = _own_modules(text, folder, candidate, is_module="module" in keys)
            return Seen(name, guess(candidate, text, beside), True)
    return Seen(name, None, False)


def _own_modules(text: str, folder: Path, file: str, *, is_module: bool) -> dict[str, str]:
    """The modules of its own that a script imports, by file name, where Python would look for them.

    Args:
        text: the script's.
        folder: where relative names begin.
        file: the script's, as found there.
        is_module: it is run by `-m`: Python looks in the folder, and relative imports are from its package.
    """
    beside = (folder / os.path.expanduser(file)).parent
    found: dict[str, str] = {}
    for name in imported(text):
        stem = name.lstrip(".")
        level = len(name) - len(stem)
        if level and not is_module:
            continue
        root = beside.joinpath(*[".."] * (level - 1)) if level else folder if is_module else beside
        stem = stem.replace(".", "/")
        for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
            if candidate not in found and (of_module := _read(root / candidate)) is not None:
                found[candidate] = of_module
        if len(found) >= MOST_MODULES:
            break
    return found


def _read(path: Path) -> str | None:
    """A file's text; None for what is no file, or can't be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with open(path, "rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
