"""A child process as a channel: the local backend's agent, or the system's ssh with an agent behind it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import cast

from rankdeck_backends.channel import Ending
from rankdeck_backends.connection import KEPT_STDERR, AgentConnection

_STDOUT = 1
_DRAIN = 2.0
"""Seconds that output of an ended process is waited for: a child of its own may hold the pipe open."""


class AgentProcess(asyncio.SubprocessProtocol):
    """The child process as a channel. asyncio reads its pipes in pieces of up to 256 KiB.

    Attributes:
        said: the end of what it wrote to stderr.
        status: its exit status, once it has ended by itself.
    """

    def __init__(self, connection: AgentConnection) -> None:
        self.said = b""
        self.status: int | None = None
        self._connection = connection
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It has written something."""
        if fd == _STDOUT:
            self._connection.data_received(data)
        else:
            self.said = (self.said + data)[-KEPT_STDERR:]
            self._connection.stderr_received(data)

    def pause_writing(self) -> None:
        """Its pipe is full."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """There is room again."""
        self._connection.resume_writing()

    def process_exited(self) -> None:
        """It has ended; there may be output left to read."""
        if self._process is not None:
            asyncio.get_running_loop().call_later(_DRAIN, self._process.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and both of its output pipes are read to their end."""
        code = self._process.get_returncode() if self._process is not None else None
        if self._process is not None:
            self._process.close()
        self.status = code if code is not None and code >= 0 else None
        killed_by = signal.Signals(-code).name.removeprefix("SIG") if code is not None and code < 0 else None
        self._connection.channel_ended(Ending(self.status, killed_by, str(exc or "")))

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    def close(self) -> None:
        """Close its stdin."""
        if self._stdin is not None:
            self._stdin.close()

    def abort(self) -> None:
        """Kill it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.close()
