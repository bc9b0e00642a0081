"""Profile and pool files written: the user's comments and order survive, and a file is never half written."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import replace as replaced
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdeck_profiles import files, source
from rankdeck_profiles.errors import PoolError, ProfileError, RankdeckError
from rankdeck_profiles.model import Pool, Profile

if TYPE_CHECKING:
    import tomlkit

_BOM = b"\xef\xbb\xbf"
Changes = Mapping[str, Any]
"""Dotted key (`stop.grace`, `env.NCCL_DEBUG`) to its new value; None takes the key away."""


def write_profile(path: str | os.PathLike[str], changes: Changes) -> Profile:
    """Change keys of a saved profile.

    Args:
        path: the file.
        changes: dotted keys and their values; None takes a key away.

    Returns:
        The profile as saved.

    Raises:
        ProfileError: unreadable, or the result would not be a valid profile; the file is then as it was.
    """
    raw = _changed(Path(path), changes, ProfileError)
    profile = files.profile_from(_reread(raw, Path(path), ProfileError))
    replace(Path(path), raw)
    return profile


def write_pool(path: str | os.PathLike[str], changes: Changes) -> Pool:
    """Change keys of a saved pool. As `write_profile`.

    Raises:
        PoolError: unreadable, or the result would not be a valid pool; the file is then as it was.
    """
    raw = _changed(Path(path), changes, PoolError)
    pool = files.pool_from(_reread(raw, Path(path), PoolError))
    replace(Path(path), raw, PoolError)
    return pool


def new_profile(path: str | os.PathLike[str], values: Changes) -> Profile:
    """Save a new profile.

    Raises:
        ProfileError: not valid, or the file is there already.
    """
    raw = render(values)
    profile = files.profile_from(_unsaved(raw, Path(path), ProfileError))
    create(Path(path), raw, ProfileError)
    return profile


def new_pool(path: str | os.PathLike[str], values: Changes) -> Pool:
    """Save a new pool.

    Raises:
        PoolError: not valid, or the file is there already.
    """
    raw = render(values)
    pool = files.pool_from(_unsaved(raw, Path(path), PoolError))
    create(Path(path), raw, PoolError)
    return pool


def profile_values(profile: Profile) -> dict[str, Any]:
    """A profile as the keys that would give it: dotted, in the order of the documentation, defaults left out.

    `render(profile_values(p))` is a file that loads as p, wherever it lies: the working directory is written
    in full.
    """
    default = Profile(name="", framework="")
    values: dict[str, Any] = {"framework": profile.framework}
    for key in ("script", "module", "command", "args"):
        values[key] = getattr(profile, key)
    values["workdir"] = profile.workdir
    for key in (
        "python",
        "setup",
        "pool",
        "nodes",
        "procs_per_node",
        "process_count",
        "master_port",
        "env_from",
        "communication_backend",
        "azure_names",
        "barrier_timeout",
    ):
        value = getattr(profile, key)
        if value != getattr(default, key):
            values[key] = value.value if isinstance(value, StrEnum) else value
    values.update({f"env.{_quoted(name)}": value for name, value in profile.env.items()})
    values.update({f"options.{_quoted(name)}": value for name, value in profile.options.items()})
    if profile.stop != default.stop:
        values["stop.signal"] = profile.stop.signal
        values["stop.grace"] = profile.stop.grace
        values["stop.on_rank_failure"] = profile.stop.on_rank_failure.value
    values.update({f"metrics.{_quoted(name)}": value for name, value in profile.metrics.items()})
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if value is not None and value != ()
    }


def profile_toml(profile: Profile) -> str:
    """A profile as the text of a TOML file that loads as that profile, wherever it lies."""
    return render(profile_values(profile)).decode()


def render(values: Changes) -> bytes:
    """A new TOML document of these keys."""
    import tomlkit

    document = tomlkit.document()
    _set(document, values)
    return tomlkit.dumps(document).encode()


def create(path: Path, raw: bytes, error: type[RankdeckError] = ProfileError) -> None:
    """Write a new file, whole or not at all, and never over another.

    Raises:
        RankdeckError: of class `error`; it is there already, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path, raw, None)
        try:
            os.link(temporary, path)
        finally:
            os.unlink(temporary)
    except FileExistsError:
        raise error(f"{path}: is there already", "choose another name") from None
    except OSError as problem:
        raise error(f"{path}: cannot be written: {problem.strerror}") from None


def replace(path: Path, raw: bytes, error: type[RankdeckError] = ProfileError) -> None:
    """Put a file's new content in its place in one step, keeping its mode; a link stays a link.

    Raises:
        RankdeckError: of class `error`; it cannot be written. The old content is still there.
    """
    target = Path(os.path.realpath(path))
    try:
        temporary = _temporary(target, raw, stat.S_IMODE(target.stat().st_mode))
        try:
            os.replace(temporary, target)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as problem:
        raise error(f"{path}: cannot be written: {problem.strerror}") from None


def _temporary(path: Path, raw: bytes, mode: int | None) -> str:
    """A file beside `path` with this content. A mode of None is the umask's."""
    name = os.path.join(path.parent, f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            stream.flush()
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
    except OSError:
        os.unlink(name)
        raise
    return name


def _reread(raw: bytes, path: Path, error: type[RankdeckError]) -> source.Source:
    return source.parse(source.decode(raw, path, error), path, error)


def _unsaved(raw: bytes, path: Path, error: type[RankdeckError]) -> source.Source:
    """What a file would say that is not there yet, and is not kept if it is wrong."""
    return replaced(_reread(raw, path, error), saved=False)


def _changed(path: Path, changes: Changes, error: type[RankdeckError]) -> bytes:
    import tomlkit

    source.read(path, error)  # its message is better than tomlkit's
    raw = path.read_bytes()
    text = source.decode(raw, path, error)
    windows = "\r\n" in text
    document = tomlkit.parse(text.replace("\r\n", "\n"))
    try:
        _set(document, changes)
    except ValueError as problem:
        raise error(f"{path}: {problem}") from None
    text = tomlkit.dumps(document)
    if windows:
        text = text.replace("\n", "\r\n")
    return (_BOM if raw.startswith(_BOM) else b"") + text.encode()


def _set(document: tomlkit.TOMLDocument, changes: Changes) -> None:
    import tomlkit

    for dotted, value in changes.items():
        keys = _split(dotted)
        table: Any = document
        for key in keys[:-1]:
            if key not in table:
                if value is None:
                    table = {}
                    break
                table[key] = tomlkit.table()
            table = table[key]
            if not isinstance(table, dict):
                raise ValueError(f"`{key}` is no table, so `{dotted}` cannot be set")
        if value is not None:
            table[keys[-1]] = value
        elif keys[-1] in table:
            del table[keys[-1]]


def _split(dotted: str) -> list[str]:
    import tomli

    table: Any = tomli.loads(f"{dotted} = 0")
    keys = []
    while isinstance(table, dict):
        key, table = next(iter(table.items()))
        keys.append(key)
    return keys


def _quoted(name: str) -> str:
    import tomlkit

    return tomlkit.key(name).as_string()
