"""asyncssh's way of taking the lines of an ssh config apart, mended; and each line is taken apart once.

asyncssh 2.24 splits the arguments of Match at every `=` (`Match exec "test $X = y"`) where OpenSSH takes only
the one behind the keyword for a blank, and knows no comment behind a value (OpenSSH 8.7 and later). And it
takes every line apart anew for every host: with a Host block for each of 256 nodes 9 ms of CPU a host,
nearly all of it in shlex.split: more than its login.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import asyncssh.config

from rankdeck_backends import ssh_config_split

_KEPT = 1 << 15
"""Different lines that are kept."""


class _Argument(str):
    """A word that holds no `=` for those who look for one to split it at."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return part != "=" and isinstance(part, str) and super().__contains__(part)

    def startswith(self, prefix: Any, *span: Any) -> bool:
        return prefix != "=" and super().startswith(prefix, *span)

    def endswith(self, suffix: Any, *span: Any) -> bool:
        return suffix != "=" and super().endswith(suffix, *span)


@lru_cache(_KEPT)
def _words(line: str) -> tuple[str, ...]:
    keyword, words = ssh_config_split.split(line)
    return keyword, *map(_Argument, words)


class KeptWords:
    """Stands in for the module shlex, of which asyncssh.config uses this one function."""

    @staticmethod
    def split(line: str) -> list[str]:
        """The line's words; the caller may change the list.

        Raises:
            ValueError: a quotation is not closed.
        """
        return list(_words(line))


def _opened(path: Path) -> TextIO:
    """A config's text. To ssh it is bytes: a name in a comment may be in Latin-1."""
    return open(path, encoding="utf-8", errors="surrogateescape")


def mend() -> None:
    """Have asyncssh's config read files and take their lines apart this way, from now on."""
    asyncssh.config.shlex = KeptWords  # type: ignore[attr-defined, assignment]
    asyncssh.config.open = _opened  # type: ignore[attr-defined]
