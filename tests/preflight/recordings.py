"""The recorded nodes, and what they must give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli

from rankdeck_profiles.readings import CommandReading, Readings

HERE = Path(__file__).parent
NODES: Mapping[str, Any] = tomli.loads((HERE / "expected_nodes.toml").read_text())
POOLS: Mapping[str, Any] = tomli.loads((HERE / "expected_pools.toml").read_text())


def recorded(case: str) -> Readings:
    return Readings.from_json(json.loads((HERE / "recorded" / f"{case}.json").read_text()))


def changed(
    readings: Readings,
    *,
    files: Mapping[str, str | None] | None = None,
    commands: Mapping[tuple[str, ...], str | int | None] | None = None,
    syscalls: Mapping[str, Any] | None = None,
) -> Readings:
    """The readings with some of them changed; None takes one away, a number is a command's status."""
    commands = commands or {}
    others = tuple(each for each in readings.commands if each.argv not in commands)
    answers = tuple(
        CommandReading(argv, answer) if isinstance(answer, int) else CommandReading(argv, 0, answer)
        for argv, answer in commands.items()
        if answer is not None
    )
    return replace(
        readings,
        files=_merged(readings.files, files or {}),
        commands=others + answers,
        syscalls=_merged(readings.syscalls, syscalls or {}),
    )


def without(readings: Readings, *prefixes: str) -> Readings:
    """The readings without the files whose path begins so."""
    return replace(
        readings,
        files={path: text for path, text in readings.files.items() if not path.startswith(prefixes)},
    )


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**old, **new}.items() if value is not None}
