"""The agent's bytes over an SSH channel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import asyncssh

from rankdeck_backends.channel import Ending
from rankdeck_backends.connection import AgentConnection


class AgentSession(asyncssh.SSHClientSession[bytes]):
    """Passes on what arrives, straight from asyncssh's callback: its streams would cost twice the time."""

    def __init__(self, connection: AgentConnection, ended: Callable[[], None]) -> None:
        """Made by the backend.

        Args:
            connection: gets what arrives.
            ended: called when the channel is gone, after the connection has been told.
        """
        self._connection = connection
        self._ended = ended
        self._ending = Ending()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Bytes of stdout or stderr."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self._connection.stderr_received(data)
        else:
            self._connection.data_received(data)

    def pause_writing(self) -> None:
        """The window is full."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """There is room again."""
        self._connection.resume_writing()

    def exit_status_received(self, status: int) -> None:
        """The command ended by itself."""
        self._ending.status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """The command was ended by a signal."""
        self._ending.signal = signal

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is gone; exc says why, if it broke."""
        if exc is not None:
            self._ending.reason = str(exc) or type(exc).__name__
        self._connection.channel_ended(self._ending)
        self._ended()


class SshChannel:
    """The outgoing side. The SSH connection is this channel's alone and goes with it."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        self._ssh = ssh
        self._channel = channel

    def write(self, data: bytes) -> None:
        """Queue bytes; dropped if the channel is closed, whose end is told elsewhere."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self._channel.write(data)

    def close(self) -> None:
        """Close the agent's stdin."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self._channel.write_eof()

    def abort(self) -> None:
        """Drop the connection."""
        self._ssh.abort()
