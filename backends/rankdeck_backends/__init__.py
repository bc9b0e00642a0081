"""How nodes are reached: one backend a way of running the agent with its stdin and stdout in our hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_profiles.model import BackendKind

if TYPE_CHECKING:
    from rankdeck_backends.asking import Asker
    from rankdeck_backends.base import Backend

CONNECT_TIMEOUT = 10.0
"""Seconds for each step of a login, where the user's ssh config names no ConnectTimeout."""


def open_backend(
    kind: BackendKind, *, connect_timeout: float = CONNECT_TIMEOUT, asker: Asker | None = None
) -> Backend:
    """The backend for a pool of this kind. Nothing is contacted yet.

    Args:
        kind: the pool's `backend`.
        connect_timeout: seconds for each step of a login.
        asker: asks the person for host keys, passphrases and passwords; None: nothing is asked.
    """
    from rankdeck_backends import open_files

    open_files.raise_limit()
    if kind is BackendKind.LOCAL:
        from rankdeck_backends.local import LocalBackend

        return LocalBackend()
    if kind is BackendKind.OPENSSH:
        from rankdeck_backends.openssh import OpenSshBackend

        return OpenSshBackend(connect_timeout=connect_timeout)
    # asyncssh takes a third of a second to import: only those who use it wait for it.
    from rankdeck_backends.ssh import SshBackend

    return SshBackend(connect_timeout=connect_timeout, asker=asker)
