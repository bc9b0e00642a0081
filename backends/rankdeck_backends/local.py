"""The local backend: each node of the pool is an agent of its own on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from rankdeck_backends import open_files, package
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.process_channel import AgentProcess
from rankdeck_profiles.model import PoolNode

_HELLO_TIMEOUT = 30.0
"""Seconds for an interpreter to start and unpack the agent on a busy machine with a slow disk."""


class LocalBackend:
    """Starts agents as child processes, each its own session: Ctrl-C in the terminal does not reach them.

    They keep the user's environment and PATH, so tools found there are found by the ranks, too.
    """

    kind = "local"

    def __init__(self) -> None:
        self._packed = package.Packed()

    async def open(self, node: PoolNode) -> AgentConnection:
        """Start an agent for this node.

        Raises:
            NodeError: it could not be started (step `connect`, `python` or `agent`).
        """
        connection = AgentConnection(node.name)
        packed = await self._packed.input()
        open_files.require_room(node.name)
        argv = open_files.as_in_shell(package.bootstrap_argv(sys.executable or "python3"))
        try:
            _, process = await asyncio.get_running_loop().subprocess_exec(
                lambda: AgentProcess(connection), *argv, cwd=_home(), start_new_session=True
            )
        except OSError as error:
            raise NodeError(
                node.name,
                Step.PYTHON,
                f"{argv[0]} cannot be started: {error.strerror or error}",
                "rankdeck starts its local agent with the Python it runs on itself",
            ) from None
        connection.attach(process)
        process.write(packed)
        try:
            await connection.greeted(_HELLO_TIMEOUT)
        except BaseException:
            await connection.drop()
            raise
        return connection

    async def close(self) -> None:
        """Nothing is shared between local connections."""


def _home() -> str:
    """Where a session starts, as it would after a login."""
    home = Path("~").expanduser()
    return str(home) if home.is_absolute() and home.is_dir() and os.access(home, os.X_OK) else "/"
