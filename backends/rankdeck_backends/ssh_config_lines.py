"""asyncssh takes every line of the ssh config apart anew for every host; here each line is taken apart once.

With a Host block for each of 256 nodes that is 9 ms of CPU a host, nearly all of it in shlex.split: more than
its login.
"""

from __future__ import annotations

import shlex
from functools import lru_cache

import asyncssh.config

_KEPT = 1 << 15
"""Different lines that are kept."""


@lru_cache(_KEPT)
def _words(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line))


class KeptWords:
    """Stands in for the module shlex, of which asyncssh.config uses this one function."""

    @staticmethod
    def split(line: str) -> list[str]:
        """The line's words; the caller may change the list.

        Raises:
            ValueError: a quotation is not closed.
        """
        return list(_words(line))


def keep() -> None:
    """Have asyncssh's config keep what it has taken apart, from now on."""
    asyncssh.config.shlex = KeptWords  # type: ignore[attr-defined, assignment]
