"""asyncssh's way of taking the lines of an ssh config apart, mended; and each line is taken apart once.

asyncssh 2.24 splits the arguments of Match at every `=` (`Match exec "test $X = y"`) where OpenSSH takes only
the one behind the keyword for a blank, and knows no comment behind a value (OpenSSH 8.7 and later). And it
takes every line apart anew for every host: with a Host block for each of 256 nodes 9 ms of CPU a host,
nearly all of it in shlex.split: more than its login.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import Any

import asyncssh.config

_KEPT = 1 << 15
"""Different lines that are kept."""
_KEYWORD = re.compile(r'("?\w+"?)(?:\s*=\s*|\s+)(.*)', re.DOTALL)


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
    keyword = _KEYWORD.match(line)
    if keyword is None:
        return tuple(shlex.split(line))
    words = [_Argument(word) for word in shlex.split(_without_comment(keyword[2]))]
    return keyword[1].strip('"'), *words


def _without_comment(text: str) -> str:
    """The text before a `#` that begins a word, as OpenSSH's argv_split has it."""
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (at == 0 or text[at - 1].isspace()):
            return text[:at]
    return text


class KeptWords:
    """Stands in for the module shlex, of which asyncssh.config uses this one function."""

    @staticmethod
    def split(line: str) -> list[str]:
        """The line's words; the caller may change the list.

        Raises:
            ValueError: a quotation is not closed.
        """
        return list(_words(line))


def mend() -> None:
    """Have asyncssh's config take lines apart this way, from now on."""
    asyncssh.config.shlex = KeptWords  # type: ignore[attr-defined, assignment]
