"""The ssh backend: one connection and one channel a node, as the user's own ssh config says."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncssh

from rankdeck_backends import package, ssh_errors
from rankdeck_backends.asking import Asker
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.openssh import OpenSshBackend
from rankdeck_backends.ssh_channel import AgentSession, SshChannel
from rankdeck_backends.ssh_logins import BeyondUsError, Login, Logins
from rankdeck_profiles.model import PoolNode

_AT_ONCE = 32
"""Agents that are being started at once, as many as logins may be under way."""
_HELLO_PATIENCE = 3.0
"""How many times the connect timeout the shell and the interpreter may take to bring up the agent."""

_SESSION_RETRY_DELAYS = (0.3, 0.6)
"""Seconds, on average, before each further try where a server opens no session."""
_OPEN_LATER = (asyncssh.OPEN_CONNECT_FAILED, asyncssh.OPEN_RESOURCE_SHORTAGE)
"""Reasons for which another try may do (RFC 4254, section 5.1). OpenSSH's "open failed" is the first."""


class SshBackend:
    """Logs in to nodes and starts agents there. Host keys are always verified."""

    kind = "ssh"

    def __init__(self, *, connect_timeout: float = 10.0, asker: Asker | None = None) -> None:
        """Nothing is contacted yet.

        Args:
            connect_timeout: seconds for each step of a login, where the config names no ConnectTimeout.
            asker: asks the person for what only they know; None: what would have to be asked is refused.
        """
        self._timeout = connect_timeout
        self._logins = Logins(connect_timeout=connect_timeout, asker=asker)
        self._openssh = OpenSshBackend(connect_timeout=connect_timeout)
        self._packed = package.Packed()
        self._starts = asyncio.Semaphore(_AT_ONCE)

    async def open(self, node: PoolNode) -> AgentConnection:
        """Log in to the node and start an agent there.

        Raises:
            NodeError: at the first step that failed.
        """
        try:
            return await self._open(node)
        except BeyondUsError as beyond:
            connection = await self._by_openssh(node, beyond)
        if connection is None:
            self._logins.kerberos_fails(node.name)
            return await self._open(node)
        return connection

    async def _by_openssh(self, node: PoolNode, beyond: BeyondUsError) -> AgentConnection | None:
        """Have the system's ssh try where it may get further; if it does not, both reasons are told.

        Returns:
            The connection; None if it got no further, and a person can still be asked.
        """
        try:
            connection = await self._openssh.open(node)
        except NodeError as error:
            if beyond.before_asking:
                return None
            told = beyond.told
            what = f"{told.what}\n  the system's ssh does not get further: {error.what}"
            raise NodeError(node.name, told.step, what, told.hint) from None
        connection.note = f"{connection.note} ({beyond.why})"
        return connection

    async def _open(self, node: PoolNode) -> AgentConnection:
        self._packed.begin()
        login = await self._logins.connect(node)
        try:
            async with self._starts:
                return await self._start_agent(node.name, login)
        except BaseException:
            login.ssh.abort()
            self._logins.let_go(login.ssh)
            raise

    async def close(self) -> None:
        """Close the connections to jump hosts, and wait until what was closed before is gone."""
        await self._logins.close()

    async def _start_agent(self, node: str, login: Login) -> AgentConnection:
        settings, ssh = login.settings, login.ssh
        connection = AgentConnection(node, by_hand=f"{settings.command_line} python3 -V")
        connection.note = login.note
        limit = (settings.timeout or self._timeout) * _HELLO_PATIENCE
        packed = await self._packed.input()
        try:
            async with asyncio.timeout(limit):
                channel = await self._session(connection, ssh)
        except asyncssh.ChannelOpenError as error:
            raise ssh_errors.channel_refused(node, error) from None
        except TimeoutError:
            raise NodeError(
                node, Step.SHELL, f"logged in, but no session was opened within {limit:g} s"
            ) from None
        except (asyncssh.Error, OSError) as error:
            raise NodeError(node, Step.LOST, f"the connection broke right after the login: {error}") from None
        peer = ssh.get_extra_info("peername")  # None: it is gone already
        if peer and login.direct:
            connection.reached_at = peer[0]
        carrier = SshChannel(ssh, channel)  # it may have ended by now, which `greeted` tells
        connection.attach(carrier)
        carrier.write(packed)
        await connection.greeted(limit)
        return connection

    async def _session(
        self, connection: AgentConnection, ssh: asyncssh.SSHClientConnection
    ) -> asyncssh.SSHClientChannel[bytes]:
        """A channel on which the agent is being started, asked for again where the server opens none.

        That is safe: nothing has been run. A server that has no process or memory left may have in a moment.
        """
        started: dict[str, Any] = {"encoding": None, "request_pty": False}
        pauses = iter(_SESSION_RETRY_DELAYS)
        while True:
            try:
                channel, _ = await ssh.create_session(
                    lambda: AgentSession(connection, lambda: self._logins.let_go(ssh)),
                    package.bootstrap_command(),
                    **started,
                )
                return channel
            except asyncssh.ChannelOpenError as error:
                pause = next(pauses, None)
                if pause is None or error.code not in _OPEN_LATER:
                    raise
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
