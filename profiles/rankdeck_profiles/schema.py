"""The keys of profile and pool files and their types. msgspec checks; the messages are made here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from rankdeck_profiles.model import BARRIER_TIMEOUT
from rankdeck_profiles.nodes import MAX_SLOTS
from rankdeck_profiles.source import KeyPath, Source

Text = str | int
"""Text, or a whole number, taken as its digits (`OMP_NUM_THREADS = 4`).

Fractions are not taken: 1e-5 has several spellings."""


class StopTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`[stop]` of a profile."""

    signal: str = "TERM"
    grace: str | int | float = 60
    on_rank_failure: str = "stop"


class ProfileFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A profile as written."""

    framework: str
    script: str | None = None
    module: str | None = None
    command: list[Text] | None = None
    args: list[Text] = []
    workdir: str | None = None
    python: str = "python3"
    setup: list[str] = []
    pool: str | None = None
    nodes: int | None = None
    procs_per_node: int | None = None
    process_count: int | None = None
    master_port: int | str = "auto"
    env: dict[str, Text] = {}
    env_from: list[str] = []
    communication_backend: str | None = None
    azure_names: bool = False
    barrier_timeout: str | int | float = BARRIER_TIMEOUT
    options: dict[str, Any] = {}
    stop: StopTable = msgspec.field(default_factory=StopTable)
    metrics: dict[str, str] = {}


class PoolFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A pool as written."""

    backend: str
    nodes: list[str] | None = None
    hostfile: str | None = None
    slots: int | None = None
    interface: str | None = None
    include: str | None = None
    exclude: str | None = None


class NotifyTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`[notify]` of settings.toml."""

    on: list[str] | None = None
    bell: bool = True
    desktop: str = "auto"
    command: list[str] | None = None
    webhook: str = ""
    time_limit: str | int | float = 10


class SettingsFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """settings.toml as written."""

    notify: NotifyTable = msgspec.field(default_factory=NotifyTable)


_TABLES: Mapping[str, Any] = {"stop": StopTable, "notify": NotifyTable}

ALLOWED: Mapping[str, str] = {
    "script": 'text, such as "train.py"',
    "module": 'text, such as "pkg.train"',
    "command": 'a list of text, such as ["./train.sh", "--fast"]',
    "args": 'a list of text, such as ["--epochs", "50"]',
    "workdir": 'text, such as "~/work"',
    "python": 'text, such as "~/venv/bin/python"',
    "setup": 'a list of shell lines, such as ["module load cuda"]',
    "pool": "the name of a pool, as text",
    "procs_per_node": "a whole number, 1 or more",
    "process_count": "a whole number, 1 or more",
    "master_port": '"auto", or a port from 1 to 65535',
    "env": 'a table of text: NAME = "value"',
    "env_from": 'a list of names, such as ["WANDB_API_KEY"]',
    "communication_backend": '"nccl", "gloo" or "mpi"',
    "azure_names": "true or false",
    "barrier_timeout": 'a number of seconds, or text such as "90s" or "10m"',
    "options": "a table",
    "stop": "a table of signal, grace and on_rank_failure",
    "metrics": "a table of regular expressions, as text",
    "hostfile": "the path of a host file, as text",
    "slots": f"a whole number, 1 to {MAX_SLOTS}",
    "include": 'nodes and their GPUs, such as "gpu001@gpu002:0,2"',
    "exclude": 'nodes and GPUs to leave out, such as "gpu001@gpu002:0,2"',
    "interface": 'the name of a network interface, such as "ib0"',
    "stop.signal": 'the name of a signal, such as "TERM"',
    "stop.grace": 'a number of seconds, or text such as "60s" or "2m"',
    "stop.on_rank_failure": '"stop" or "keep"',
    "notify": "a table of on, bell, desktop, command, webhook and time_limit",
    "notify.on": 'a list of "failure", "silence" and "end"',
    "notify.bell": "true or false",
    "notify.desktop": '"auto", "osc9", "osc777" or "off"',
    "notify.command": 'a list of text, such as ["notify-send", "rankdeck"]',
    "notify.webhook": "a web address, as text",
    "notify.time_limit": 'a number of seconds, or text such as "10s"',
}
"""What a key takes, for messages. `framework`, `backend` and `nodes` depend on more than their type."""

_File = TypeVar("_File", ProfileFile, PoolFile, SettingsFile)
_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")


def convert(source: Source, kind: type[_File], allowed: Mapping[str, str]) -> _File:
    """Check keys and types.

    Args:
        source: the file, overrides applied.
        kind: what it should be.
        allowed: what certain keys take, beside `ALLOWED`.

    Raises:
        RankdeckError: of the source's class, for the first problem: file, line, key, what was found, what is
        allowed.
    """
    try:
        return msgspec.convert(source.data, kind)
    except msgspec.ValidationError as problem:
        _explain(source, kind, {**ALLOWED, **allowed}, str(problem))


def show(value: Any) -> str:
    """A value as TOML would have it, near enough for a message, and short."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    elif isinstance(value, list):
        text = "[" + ", ".join(show(item) for item in value) + "]"
    elif isinstance(value, dict):
        text = "a table"
    elif isinstance(value, float):
        text = str(value).replace("e+", "e")  # 9e18, as people write it
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _explain(source: Source, kind: type[_File], allowed: Mapping[str, str], message: str) -> NoReturn:
    at = _AT.search(message)
    where: KeyPath = _steps(source, at[1] if at else "", message)
    what = message[: at.start()] if at else message
    if unknown := _UNKNOWN.fullmatch(what):
        key = unknown[1]
        table: Any = kind if not where else _TABLES[str(where[0])]
        known = table.__struct_fields__
        near = difflib.get_close_matches(key.lower(), known, n=1)
        place = f" in [{where[0]}]" if where else ""
        raise source.problem(
            (*where, key),
            f"unknown key `{key}`{place}" + (f"; did you mean `{near[0]}`?" if near else ""),
            f"allowed: {', '.join(known)}",
        )
    if missing := _MISSING.fullmatch(what):
        key = missing[1]
        raise source.problem((key,), f"`{key}` is missing", f"add {key} = ...; allowed: {allowed[key]}")
    name = ".".join(step for step in where if isinstance(step, str))
    key = name if name in allowed else str(where[0])
    label = name + "".join(f"[{step}]" for step in where if isinstance(step, int))
    found = source.value(where)
    hint = f"allowed: {allowed[key]}"
    if isinstance(found, (bool, float)) and str(where[0]) in ("args", "command", "env"):
        hint += f'; write it in quotes: "{show(found)}"'
    raise source.problem(where, f"{label} = {show(found)}", hint)


def _steps(source: Source, path: str, message: str) -> KeyPath:
    steps: list[str | int] = []
    for name, index, anonymous in _STEP.findall(path):
        if anonymous:
            # msgspec does not say which key of a mapping it was: the first with a value of the type it names.
            steps.append(_culprit(source.value(tuple(steps)), message))
        else:
            steps.append(int(index) if index else name)
    return tuple(steps)


def _culprit(table: Any, message: str) -> str:
    allowed = (str,) if "Expected `str`" in message else (str, int)
    for key, value in table.items():
        if not isinstance(value, allowed) or isinstance(value, bool):
            return str(key)
    return "..."
