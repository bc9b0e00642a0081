"""asyncssh's Include, mended: files in lexical order, relative to the right folder, at most 16 levels deep.

asyncssh 2.24 takes the files that a pattern names as the folder lists them, which differs from machine to
machine, while the first value found counts (ssh_config(5) says lexical order); and it follows a file that
includes itself until Python's stack ends.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.config import SSHClientConfig

from rankdeck_backends.ssh_includes import MAX_DEPTH, included

_DEPTH = "rankdeck_include_depth"

Handler = Callable[[Any, str, list[str]], None]


def mend() -> None:
    """Put the mended Include in the place of asyncssh's, once."""
    option, handler = SSHClientConfig._handlers["include"]
    if getattr(handler, "mended", False):
        return
    replacement = _mended(handler)
    replacement.mended = True  # type: ignore[attr-defined]
    SSHClientConfig._handlers["include"] = (option, replacement)


def _mended(handler: Handler) -> Handler:
    def include(config: Any, option: str, args: list[str]) -> None:
        depth = getattr(config, _DEPTH, 0) + 1
        inside = Path(config._path)
        if depth > MAX_DEPTH:
            raise asyncssh.ConfigParseError(f"{inside} is included more than {MAX_DEPTH} levels deep")
        files = [path for pattern in args for path in included(pattern, inside)]
        args.clear()
        setattr(config, _DEPTH, depth)
        try:
            if files:
                handler(config, option, [glob.escape(str(path)) for path in files])
        finally:
            setattr(config, _DEPTH, depth - 1)

    return include
