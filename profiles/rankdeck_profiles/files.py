"""Profile and pool files read and checked.

Every message names file, line, key, what was found and what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankdeck_profiles import durations, frameworks, nodes, placeholders, ranges, source
from rankdeck_profiles.errors import FieldError, PlanError, PoolError, ProfileError
from rankdeck_profiles.metric_patterns import MetricPattern, MetricPatternError
from rankdeck_profiles.model import CommBackend, OnRankFailure, Pool, Profile, StopPolicy
from rankdeck_profiles.overrides import Override, apply, parse_override
from rankdeck_profiles.settings import IDENTITY, OWN
from rankdeck_profiles.source import KeyPath, Source

__all__ = ["load_pool", "load_profile", "parse_override", "pool_from", "profile_from"]

SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ABRT", "KILL")
"""Signals that may be asked for: those that end a process, or that checkpointing scripts listen to."""

_MOST = {
    "nodes": ranges.MAX_RANGE,
    "procs_per_node": nodes.MAX_SLOTS,
    "process_count": ranges.MAX_RANGE * nodes.MAX_SLOTS,
}
"""The most of each: as many as pools can have. More is a slip of the finger."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def load_profile(
    path: str | os.PathLike[str],
    overrides: Sequence[Override | str] = (),
    *,
    base: str | os.PathLike[str] | None = None,
) -> Profile:
    """Read and check a profile.

    Args:
        path: the TOML file.
        overrides: from `parse_override`, or its text; put on top before checking.
        base: what a relative `workdir` is relative to, and the default for it; None: the file's own folder.

    Raises:
        ProfileError: cannot be read, or says something that cannot be.
    """
    read = source.read(path, ProfileError)
    return profile_from(apply(read, _parsed(overrides)), base=base)


def load_pool(path: str | os.PathLike[str]) -> Pool:
    """Read and check a pool.

    Raises:
        PoolError: cannot be read, or says something that cannot be.
    """
    from rankdeck_profiles import pools

    return pools.pool_from(source.read(path, PoolError))


def pool_from(read: Source) -> Pool:
    """A pool from a file already read. Raises as `load_pool` does."""
    from rankdeck_profiles import pools

    return pools.pool_from(read)


def profile_from(read: Source, *, base: str | os.PathLike[str] | None = None) -> Profile:
    """A profile from a file already read, overrides applied. Raises as `load_profile` does."""
    from rankdeck_profiles import schema

    raw = schema.convert(
        read,
        schema.ProfileFile,
        {
            "framework": ", ".join(f'"{name}"' for name in frameworks.names()),
            "nodes": "a whole number, 1 or more; which nodes there are is said in the pool",
        },
    )
    profile = Profile(
        name=read.path.stem,
        framework=_framework(read, raw.framework),
        script=raw.script,
        module=raw.module,
        command=tuple(str(word) for word in raw.command or ()),
        args=tuple(str(word) for word in raw.args),
        workdir=_workdir(read, raw.workdir, Path(base) if base is not None else read.path.absolute().parent),
        python=raw.python,
        setup=tuple(raw.setup),
        pool=raw.pool,
        nodes=_count(read, "nodes", raw.nodes),
        procs_per_node=_count(read, "procs_per_node", raw.procs_per_node),
        process_count=_count(read, "process_count", raw.process_count),
        master_port=_port(read, raw.master_port),
        env={name: str(value) for name, value in raw.env.items()},
        env_from=tuple(raw.env_from),
        communication_backend=_comm_backend(read, raw.communication_backend),
        azure_names=raw.azure_names,
        options=raw.options,
        stop=_stop(read, raw.stop),
        barrier_timeout=_duration(read, ("barrier_timeout",), raw.barrier_timeout),
        metrics=dict(raw.metrics),
        source=read.path.absolute(),
    )
    _check_text(read)
    _check_program(read, profile)
    _check_names(read, profile)
    _check_metrics(read, profile.metrics)
    try:
        placeholders.check(profile.args)
    except placeholders.PlaceholderError as problem:
        raise read.problem(("args", problem.index), f"args: {problem}", problem.hint) from None
    try:
        frameworks.get(profile.framework).check(profile)
    except FieldError as problem:
        raise read.problem(problem.where, problem.message, problem.hint) from None
    return profile


def _parsed(overrides: Sequence[Override | str]) -> list[Override]:
    return [parse_override(item) if isinstance(item, str) else item for item in overrides]


def _framework(read: Source, name: str) -> str:
    try:
        return frameworks.get(name).name
    except PlanError as problem:
        raise read.problem(("framework",), problem.message, problem.hint) from None


def _workdir(read: Source, text: str | None, base: Path) -> str:
    if text is None:
        return str(base)
    if not text.strip():
        raise read.problem(("workdir",), 'workdir = ""', "name a folder, or leave the key out")
    if text == "~" or text.startswith(("~/", "/")):
        return text
    if text.startswith("~"):
        raise read.problem(
            ("workdir",), f'workdir = "{text}": only ~ and ~/... are known', "write the path in full"
        )
    return str(base / text)


def _count(read: Source, key: str, value: int | None) -> int | None:
    if value is None or 1 <= value <= _MOST[key]:
        return value
    allowed = "1 or more" if value < 1 else f"1 to {_MOST[key]}"
    raise read.problem((key,), f"{key} = {value}", f"allowed: a whole number, {allowed}")


def _port(read: Source, value: int | str) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, str) or not 1 <= value <= 65535:
        found = f'"{value}"' if isinstance(value, str) else value
        raise read.problem(
            ("master_port",), f"master_port = {found}", 'allowed: "auto", or a number from 1 to 65535'
        )
    return value


def _comm_backend(read: Source, value: str | None) -> CommBackend | None:
    if value is not None and value not in list(CommBackend):
        raise read.problem(
            ("communication_backend",),
            f'communication_backend = "{value}"',
            f"allowed: {', '.join(CommBackend)}",
        )
    return None if value is None else CommBackend(value)


def _duration(read: Source, key: tuple[str, ...], value: str | int | float) -> float:
    try:
        return durations.parse(value)
    except ValueError as problem:
        raise read.problem(key, f"{'.'.join(key)}: {problem}") from None


def _stop(read: Source, raw: object) -> StopPolicy:
    from rankdeck_profiles.schema import StopTable

    assert isinstance(raw, StopTable)
    signal = raw.signal.upper().removeprefix("SIG")
    if signal not in SIGNALS:
        raise read.problem(
            ("stop", "signal"), f'stop.signal = "{raw.signal}"', f"allowed: {', '.join(SIGNALS)}"
        )
    grace = _duration(read, ("stop", "grace"), raw.grace)
    if raw.on_rank_failure not in list(OnRankFailure):
        raise read.problem(
            ("stop", "on_rank_failure"),
            f'stop.on_rank_failure = "{raw.on_rank_failure}"',
            'allowed: "stop" (one rank fails: the others are stopped) or "keep"',
        )
    return StopPolicy(signal, grace, OnRankFailure(raw.on_rank_failure))


def _check_text(read: Source) -> None:
    """No NUL anywhere: neither arguments nor environment can hold one."""

    def walk(value: object, where: KeyPath) -> None:
        if isinstance(value, str) and "\0" in value:
            raise read.problem(
                where, f"{where[0]} holds a NUL character", "no argument, path or variable can"
            )
        if isinstance(value, dict):
            for key, below in value.items():
                walk(key, (*where, key))
                walk(below, (*where, key))
        elif isinstance(value, list):
            for index, below in enumerate(value):
                walk(below, (*where, index))

    walk(dict(read.data), ())


def _check_program(read: Source, profile: Profile) -> None:
    given = [key for key in ("script", "module", "command") if read.data.get(key) is not None]
    if len(given) != 1:
        what = (
            "none of script, module and command is given" if not given else f"{' and '.join(given)} are given"
        )
        where: KeyPath = (given[-1],) if given else ()
        raise read.problem(where, f"{what}; exactly one says what is run", 'such as script = "train.py"')
    key = given[0]
    words = profile.command if key == "command" else (profile.script or profile.module or "",)
    if not words or not words[0].strip():
        raise read.problem((key,), f"{key} is empty", 'name what is run, such as script = "train.py"')
    if key == "module" and not all(part.isidentifier() for part in words[0].split(".")):
        raise read.problem(
            (key,), f'module = "{words[0]}"', 'allowed: a module\'s dotted name, such as "pkg.train"'
        )
    if not profile.python.strip():
        raise read.problem(
            ("python",), 'python = ""', "name an interpreter, or leave the key out for python3"
        )


def _check_names(read: Source, profile: Profile) -> None:
    places: list[tuple[KeyPath, str]] = [(("env", name), name) for name in profile.env]
    places += [(("env_from", index), name) for index, name in enumerate(profile.env_from)]
    seen: set[str] = set()
    for where, name in places:
        if not _NAME.fullmatch(name):
            raise read.problem(
                where,
                f'"{name}" in {where[0]} is no variable\'s name',
                "allowed: letters, digits and _, no digit first",
            )
        if name in IDENTITY or name in OWN:
            fix = "; master_port = ... sets it" if name == "MASTER_PORT" else ""
            raise read.problem(
                where,
                f"{name} in {where[0]}: it is computed, and differs from rank to rank or run to run",
                f"remove it{fix}",
            )
        if name in seen:
            raise read.problem(where, f"{name} is given more than once in env and env_from", "give it once")
        seen.add(name)


def _check_metrics(read: Source, metrics: Mapping[str, str]) -> None:
    for name, pattern in metrics.items():
        try:
            MetricPattern.parse(name, pattern)
        except MetricPatternError as problem:
            said = f"metrics.{name}{'' if str(problem).startswith('has ') else ':'} {problem}"
            raise read.problem(("metrics", name), said, problem.hint) from None
