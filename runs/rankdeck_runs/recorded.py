"""Recorded nodes: what preflight read, as files that can be judged again without any node."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.masking import MASK, is_secret
from rankdeck_profiles.readings import CommandReading, Readings

SCHEMA = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z_][\w.-]*)(?P<sign>\s*=\s*|\s+)(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s,;]+)"
)
"""`NAME=value`, `NAME = value`, `--name value`: as conf files, environments and command lines have them."""
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@")
"""`https://user:password@host`."""
_CONF = re.compile(r"\.conf$|^/proc/cmdline$|\.sh$")
"""Files in which a person may have written a secret."""


class RecordingError(RankdeckError):
    """Recorded nodes can't be read or written."""


MOST_BYTES = 64 << 20
"""A recorded node is some tens of KiB, with hundreds of cards and modules under one MiB."""
_MADE_BY = "`rankdeck check --record DIR` makes such files"


def make_folder(folder: Path) -> None:
    """Make the folder for a record before anything is read, so that what can't be written is known at once.

    Raises:
        RecordingError: it can't be made, or not be written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise RecordingError(f"{folder}: no folder can be made there: {problem.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecordingError(f"{folder}: it can't be written into", "name another folder")


def write(folder: Path, readings: Mapping[str, Readings]) -> list[Path]:
    """Save each node's readings, secrets left out, as `<node>.json`; files of that name are replaced.

    Raises:
        RecordingError: the folder can't be written.
    """
    written: list[Path] = []
    for node, each in readings.items():
        path = folder / f"{_UNSAFE.sub('_', node)}.json"
        place = len(written)
        document = {"schema": SCHEMA, "node": node, "place": place, **without_secrets(each).to_json()}
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")
            unfinished.replace(path)
        except OSError as problem:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise RecordingError(
                f"{path} can't be written: {problem.strerror}", "make room there, or name another folder"
            ) from None
        written.append(path)
    return written


def others_in(folder: Path, written: Iterable[Path]) -> list[str]:
    """The names of records in a folder beside those just written: replaying the folder would take them in."""
    own = set(written)
    return sorted(path.name for path in folder.glob("*.json") if path not in own)


def read(paths: Iterable[Path]) -> dict[str, Readings]:
    """The nodes in files, in the order given; the first is the head node.

    A folder stands for the JSON files in it, in the order in which they were recorded. A name that comes
    twice gets a number: the same file given twice is two such nodes.

    Raises:
        RecordingError: a file is not there, or holds no recorded node.
    """
    found: dict[str, Readings] = {}
    for name, readings in _nodes(paths):
        number = 2
        unique = name
        while unique in found:
            unique, number = f"{name}-{number}", number + 1
        found[unique] = readings
    return found


def without_secrets(readings: Readings) -> Readings:
    """The readings with the values of all that is named like a secret masked."""
    return Readings(
        files={
            path: _masked(content) if _CONF.search(path) else content
            for path, content in readings.files.items()
        },
        commands=tuple(_command(each) for each in readings.commands),
        syscalls=_value(readings.syscalls),
    )


def _nodes(paths: Iterable[Path]) -> Iterator[tuple[str, Readings]]:
    for path in paths:
        if not path.is_dir():
            _, name, readings = _node(path)
            yield name, readings
            continue
        inside = sorted(each for each in path.glob("*.json") if not each.is_dir())
        if not inside:
            raise RecordingError(
                f"{path}: no recorded nodes are in it", "`rankdeck check --record DIR` makes them"
            )
        for _, name, readings in sorted(map(_node, inside), key=lambda node: node[0]):
            yield name, readings


def _node(path: Path) -> tuple[int, str, Readings]:
    try:
        if path.exists() and not path.is_file():
            raise RecordingError(f"{path} is no file", _MADE_BY)
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as problem:
        raise RecordingError(f"{path}: {problem.strerror}", _MADE_BY) from None
    if len(raw) > MOST_BYTES:
        raise RecordingError(f"{path}: over {MOST_BYTES >> 20} MiB: no recorded node", _MADE_BY)
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        raise RecordingError(f"{path}: no JSON: {problem}", _MADE_BY) from None
    if not isinstance(document, dict) or not document.keys() & {"files", "commands", "syscalls"}:
        raise RecordingError(
            f"{path}: no recorded node: an object with files, commands and syscalls is expected",
            _MADE_BY,
        )
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise RecordingError(
            f"{path}: schema {schema!r}; this rankdeck reads {SCHEMA}", "use the rankdeck that recorded it"
        )
    try:
        readings = Readings.from_json(document)
    except ValueError as problem:
        raise RecordingError(f"{path}: {problem}", _MADE_BY) from None
    name = document.get("node") or document.get("case") or path.stem
    place = document.get("place")
    return place if isinstance(place, int) else 0, str(name), readings


def _command(command: CommandReading) -> CommandReading:
    argv = tuple(_masked(" ".join(command.argv)).split(" "))
    return replace(command, argv=argv, stdout=_masked(command.stdout), stderr=_masked(command.stderr))


def _value(value: Any) -> Any:
    """Texts in a JSON value, masked."""
    if isinstance(value, str):
        return _masked(value)
    if isinstance(value, Mapping):
        return {name: MASK if _is_variable(name, each) else _value(each) for name, each in value.items()}
    return [_value(each) for each in value] if isinstance(value, list) else value


def _is_variable(name: str, value: object) -> bool:
    """Whether it is an environment's entry that holds a secret."""
    return isinstance(value, str) and name.isupper() and is_secret(name)


def _masked(text: str) -> str:
    def mask(match: re.Match[str]) -> str:
        if not is_secret(match["name"]) or not _assigns(text, match):
            return match[0]
        return f"{match['name']}{match['sign']}{MASK}"

    return _IN_URL.sub(rf"\1{MASK}@", _ASSIGNED.sub(mask, text))


def _assigns(text: str, match: re.Match[str]) -> bool:
    """Whether a value follows: an equals sign, or an option's name (`--api-key x`)."""
    return "=" in match["sign"] or text[: match.start()].endswith("-")
