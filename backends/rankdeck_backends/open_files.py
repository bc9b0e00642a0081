"""How many files this process may have open: each node takes one (a connection) or three (a process's pipes).

Shells start with a soft limit of 1,024, some with 256; programs may raise it up to the hard limit themselves
(getrlimit(2)), as rankdeck does. What it starts on this machine for a run gets the limit that the shell had:
programs that use select(2) rely on a low one.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence

from rankdeck_backends.base import NodeError, Step

WANTED = 1 << 16
"""Enough for the most nodes a range may name (65,536), and more than any pool has had."""
RESERVE = 64
"""Descriptors that new connections leave for the record's files, look-ups and logins under way (32); where
that is more than a quarter of all, a quarter."""

_shell: list[int] = []
"""The soft limit before it was raised."""


def raise_limit() -> None:
    """Allow as many as the hard limit does, once."""
    if _shell:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _shell.append(soft)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def as_in_shell(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` with the limit that the user's shell had."""
    if not _shell or _shell[0] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
        return list(argv)
    return ["/bin/sh", "-c", 'ulimit -Sn "$0" && exec "$@"', str(_shell[0]), *argv]


def require_room(node: str) -> None:
    """See that a connection to a node can be made.

    Raises:
        NodeError: too few descriptors are left.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    try:
        lowest = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # the kernel gives the lowest free number
        os.close(lowest)
    except OSError:
        lowest = soft
    if lowest + min(RESERVE, soft // 4) < soft:
        return
    raise NodeError(
        node,
        Step.CONNECT,
        f"no connection was begun: rankdeck may have {soft} files open, and the other nodes take them up",
        "allow more before it is started (`ulimit -n 4096`; `ulimit -Hn` tells the most), or use fewer nodes",
    )
