"""The local backend: each node of the pool is an agent of its own on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import cast

from rankdeck_backends import package
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.channel import Ending
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.model import PoolNode

_HELLO_TIMEOUT = 30.0
"""Seconds for an interpreter to start and unpack the agent on a busy machine with a slow disk."""
_STDOUT = 1
_DRAIN = 2.0
"""Seconds that output of an ended agent is waited for: a child of its own may hold the pipe open."""


class LocalBackend:
    """Starts agents as child processes, each its own session: Ctrl-C in the terminal does not reach them.

    They keep the user's environment and PATH, so tools found there are found by the ranks, too.
    """

    kind = "local"

    async def open(self, node: PoolNode) -> AgentConnection:
        """Start an agent for this node.

        Raises:
            NodeError: it could not be started (step `python` or `agent`).
        """
        connection = AgentConnection(node.name)
        argv = package.bootstrap_argv(sys.executable or "python3")
        try:
            _, process = await asyncio.get_running_loop().subprocess_exec(
                lambda: _AgentProcess(connection), *argv, cwd=_home(), start_new_session=True
            )
        except OSError as error:
            raise NodeError(
                node.name,
                Step.PYTHON,
                f"{argv[0]} cannot be started: {error.strerror or error}",
                "rankdeck starts its local agent with the Python it runs on itself",
            ) from None
        connection.attach(process)
        process.write(package.bootstrap_input())
        try:
            await connection.greeted(_HELLO_TIMEOUT)
        except BaseException:
            process.abort()
            raise
        return connection

    async def close(self) -> None:
        """Nothing is shared between local connections."""


class _AgentProcess(asyncio.SubprocessProtocol):
    """The child process as a channel. asyncio reads its pipes in pieces of up to 256 KiB."""

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDOUT:
            self._connection.data_received(data)
        else:
            self._connection.stderr_received(data)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def process_exited(self) -> None:
        if self._process is not None:
            asyncio.get_running_loop().call_later(_DRAIN, self._process.close)

    def connection_lost(self, exc: Exception | None) -> None:
        # Comes when the process has ended and both of its output pipes are read to their end.
        code = self._process.get_returncode() if self._process is not None else None
        if self._process is not None:
            self._process.close()
        killed_by = signal.Signals(-code).name.removeprefix("SIG") if code is not None and code < 0 else None
        self._connection.channel_ended(
            Ending(
                status=code if code is not None and code >= 0 else None,
                signal=killed_by,
                reason=str(exc or ""),
            )
        )

    def write(self, data: bytes) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    def close(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    def abort(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.close()


def _home() -> str:
    """Where a session starts, as it would after a login."""
    home = Path("~").expanduser()
    return str(home) if home.is_absolute() and home.is_dir() and os.access(home, os.X_OK) else "/"
