"""The files of an ssh config and their statements, Includes followed as OpenSSH follows them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from rankdeck_backends import ssh_config_split
from rankdeck_backends.ssh_names import CONFIG_VARIABLE
from rankdeck_profiles.errors import PoolError

DEFAULT_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config")
"""ssh_config(5): the first value found for a setting counts."""

MAX_DEPTH = 16
"""How deep files may include each other (OpenSSH, readconf.c, READCONF_MAX_DEPTH)."""

_SYSTEM = Path("/etc/ssh")


class SshConfigError(PoolError):
    """A config can't be read, or includes itself."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a config that says something."""

    path: Path
    line: int
    keyword: str
    """In lower case."""
    words: tuple[str, ...]


def default_configs() -> list[Path]:
    """The configs that ssh would read here: the one of `CONFIG_VARIABLE`, else those that are there."""
    override = os.environ.get(CONFIG_VARIABLE)
    names = (
        [override] if override else [p for p in DEFAULT_CONFIGS if os.access(Path(p).expanduser(), os.R_OK)]
    )
    return [Path(name).expanduser() for name in names]


def statements(paths: Sequence[Path]) -> Iterator[Statement]:
    """Every statement of these configs, an Include's in its place, whether its Host block fits or not.

    Raises:
        SshConfigError: a file named here can't be read, or Includes go deeper than `MAX_DEPTH`. A file that
            an Include names and that is not there is skipped, as ssh does.
    """
    for path in paths:
        yield from _of_file(path, 0)


def included(pattern: str, inside: Path) -> list[Path]:
    """The files that one word of an Include names, in lexical order.

    Args:
        pattern: the word; a relative one is within ~/.ssh, or within /etc/ssh for the system's config.
        inside: the file that has the Include.
    """
    base = _SYSTEM if inside.is_relative_to(_SYSTEM) else Path("~/.ssh").expanduser()
    found = sorted(glob(str(base / Path(pattern).expanduser())))
    return [Path(name) for name in found if not os.path.isdir(name)]


def _of_file(path: Path, depth: int) -> Iterator[Statement]:
    if depth > MAX_DEPTH:
        raise SshConfigError(
            f"the ssh config {path} is included more than {MAX_DEPTH} levels deep", "does it include itself?"
        )
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as problem:
        if depth:
            return
        raise SshConfigError(f"the ssh config {path} cannot be read: {problem.strerror}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        statement = _statement(path, number, line.strip())
        if statement is None:
            continue
        if statement.keyword != "include":
            yield statement
            continue
        for pattern in statement.words:
            for name in included(pattern, path):
                yield from _of_file(name, depth + 1)


def _statement(path: Path, number: int, line: str) -> Statement | None:
    if not line or line.startswith("#"):
        return None
    try:
        keyword, words = ssh_config_split.split(line)
    except ValueError:
        keyword, *words = line.split()
    return Statement(path, number, keyword.lower(), tuple(words))
