"""What a person wants to be told of, and how: `[notify]` of settings.toml in the configuration folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rankdeck_profiles import durations, schema, source
from rankdeck_profiles.errors import RankdeckError

FILE = "settings.toml"
OCCASIONS = ("failure", "silence", "end")
DESKTOP = ("auto", "osc9", "osc777", "off")
LONGEST_LIMIT = 300.0
"""Seconds: `rankdeck run` waits for what tells of its end."""


class SettingsError(RankdeckError):
    """settings.toml can't be read, or says something that can't be."""


@dataclass(frozen=True, slots=True)
class Notify:
    """How to tell a person what happened to a run."""

    on: frozenset[str] = frozenset(OCCASIONS)
    """Of `OCCASIONS`: the first failure, nodes that do not answer, the end."""
    bell: bool = True
    """Ring the terminal's bell."""
    desktop: str = "auto"
    """Of `DESKTOP`: the terminal's sequence for it; auto: where the terminal is known to have one."""
    command: tuple[str, ...] = ()
    """A program and its arguments, run by itself, never by a shell; none: nothing is run."""
    webhook: str = ""
    """An http or https address that is sent a JSON object; empty: none is."""
    time_limit: float = 10.0
    """Seconds for the command, and for the webhook."""


def load_notify(folder: str | os.PathLike[str]) -> Notify:
    """The settings; without a file, or a table in it, those that are there by themselves.

    Args:
        folder: the configuration folder (`paths.config_dir()`).

    Raises:
        SettingsError: the file can't be read, or says something that can't be.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return Notify()
    read = source.read(path, SettingsError)
    raw = schema.convert(read, schema.SettingsFile, {}).notify
    for index, name in enumerate(raw.on or ()):
        if name not in OCCASIONS:
            raise read.problem(
                ("notify", "on", index), f'on: "{name}" is not known', f"allowed: {_quoted(OCCASIONS)}"
            )
    if raw.desktop not in DESKTOP:
        raise read.problem(
            ("notify", "desktop"), f'desktop = "{raw.desktop}"', f"allowed: {_quoted(DESKTOP)}"
        )
    if raw.command is not None and (not raw.command or not raw.command[0].strip()):
        raise read.problem(
            ("notify", "command"), "command names no program", f"allowed: {schema.ALLOWED['notify.command']}"
        )
    if raw.webhook and not raw.webhook.startswith(("http://", "https://")):
        # Its path is a secret with most services: it is not repeated.
        raise read.problem(
            ("notify", "webhook"),
            "webhook is no web address",
            "allowed: what begins with https:// or http://",
        )
    return Notify(
        frozenset(OCCASIONS if raw.on is None else raw.on),
        raw.bell,
        raw.desktop,
        tuple(
            os.path.expanduser(word) if not index else word for index, word in enumerate(raw.command or ())
        ),
        raw.webhook,
        _limit(read, raw.time_limit),
    )


def _limit(read: source.Source, value: str | int | float) -> float:
    where = ("notify", "time_limit")
    try:
        seconds = durations.parse(value)
    except ValueError as problem:
        raise read.problem(where, f"time_limit: {problem}") from None
    if not 0 < seconds <= LONGEST_LIMIT:
        raise read.problem(
            where, f"time_limit = {schema.show(value)}", f"allowed: up to {LONGEST_LIMIT:.0f} s"
        )
    return seconds


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
