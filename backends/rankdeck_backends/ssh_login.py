"""One login: from a dialed host (or a jump host's connection) to an authenticated SSH connection."""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from rankdeck_backends import ssh_errors
from rankdeck_backends.base import NodeError
from rankdeck_backends.ssh_config import HostSettings
from rankdeck_backends.ssh_dial import Dialed, dial
from rankdeck_backends.ssh_errors import Seen

_AUTH_PATIENCE = 2.0
"""How many times the connect timeout a login may take once the host is verified: accounts may be slow."""
_AGENT_TIMEOUT = 2.0


class DroppedError(Exception):
    """The server hung up before the key exchange was through: worth another try (MaxStartups).

    Attributes:
        told: the same as a NodeError, for when there is no other try.
    """

    def __init__(self, told: NodeError) -> None:
        super().__init__(str(told))
        self.told = told


class _Client(asyncssh.SSHClient):
    """Notes what a login shows, and trusts nothing that the known_hosts files do not."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.dialed: Dialed | None = None
        self.connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn

    def connection_lost(self, exc: Exception | None) -> None:
        if self.dialed is not None:
            self.dialed.hang_up()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.seen.shown_key = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.seen.shown_ca = key
        return False

    def public_key_auth_requested(self) -> None:
        self._note_methods()

    def password_auth_requested(self) -> None:
        self._note_methods()

    def kbdint_auth_requested(self) -> None:
        self._note_methods()

    def _note_methods(self) -> None:
        if self.connection is not None:
            self.seen.methods.update(dict.fromkeys(self.connection.get_server_auth_methods()))

    def look(self) -> Seen:
        """What is to be seen now."""
        connection = self.connection
        if connection is not None:
            self.seen.connected = True
            self.seen.banner = bool(connection.get_extra_info("server_version"))
            self.seen.let_through = connection.get_server_host_key() is not None
        if self.dialed is not None:
            self.seen.proxy_said = self.dialed.said()
        return self.seen


async def log_in(
    node: str,
    settings: HostSettings,
    tunnel: asyncssh.SSHClientConnection | None,
    timeout: float,  # noqa: ASYNC109 - it is for each step, not for the whole
) -> asyncssh.SSHClientConnection:
    """Log in once.

    Args:
        node: the node it is for, named by errors.
        settings: where and how.
        tunnel: the connection to the jump host in front of it, if there is one.
        timeout: seconds for each step: look-up, connection, key exchange; twice that for the authentication.

    Raises:
        NodeError: step `resolve`, `connect`, `host key` or `auth`.
        DroppedError: the server hung up before the key exchange was through.
    """
    client = _Client(Seen())
    options = asyncssh.SSHClientConnectionOptions(options=settings.options, client_factory=lambda: client)
    if tunnel is None:
        client.dialed = await dial(node, settings, timeout)
        opening = asyncssh.run_client(client.dialed.sock, config=None, options=options)
    else:
        opening = asyncssh.connect(
            settings.name, settings.port, username=settings.user, tunnel=tunnel, config=None, options=options
        )
    task = asyncio.ensure_future(_opened(opening))
    try:
        await asyncio.wait({task}, timeout=timeout)
        limit = timeout
        if not task.done() and client.look().let_through:
            limit += timeout * _AUTH_PATIENCE
            await asyncio.wait({task}, timeout=timeout * _AUTH_PATIENCE)
        if not task.done():
            raise ssh_errors.timed_out(node, settings, client.look(), limit)
        try:
            return task.result()
        except (asyncssh.Error, OSError, ValueError) as error:
            raise await _explained(node, settings, client, error) from None
    finally:
        if not task.done() or task.cancelled() or task.exception() is not None:
            await _give_up(task, client)


async def say_goodbye(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection and wait until it and what carried it are gone."""
    connection.close()
    await connection.wait_closed()
    client = connection.get_owner()
    if isinstance(client, _Client) and client.dialed is not None:
        over = client.dialed.hang_up()
        if over is not None:
            await over


async def _opened(opening: object) -> asyncssh.SSHClientConnection:
    connection: asyncssh.SSHClientConnection = await opening  # type: ignore[misc]
    return connection


async def _give_up(task: asyncio.Task[asyncssh.SSHClientConnection], client: _Client) -> None:
    task.cancel()
    if client.connection is not None:
        client.connection.abort()
    elif client.dialed is not None:
        client.dialed.sock.close()
    with contextlib.suppress(asyncio.CancelledError, asyncssh.Error, OSError, ValueError):
        await task
    if client.dialed is not None and (over := client.dialed.hang_up()) is not None:
        await over


async def _explained(node: str, settings: HostSettings, client: _Client, error: Exception) -> Exception:
    if client.dialed is not None and (over := client.dialed.hang_up()) is not None:
        await over
    seen = client.look()
    if isinstance(error, asyncssh.PermissionDenied) or seen.let_through:
        seen.agent_keys = await _agent_keys(settings)
    told = ssh_errors.login_failed(node, settings, seen, error)
    dropped = isinstance(error, (asyncssh.ConnectionLost, ConnectionError)) and not seen.let_through
    return DroppedError(told) if dropped else told


async def _agent_keys(settings: HostSettings) -> tuple[str, ...] | None:
    """The ssh agent's keys by comment or fingerprint, for the message of a refused login."""
    if not settings.agent_path:
        return None
    with contextlib.suppress(TimeoutError, OSError, ValueError, asyncssh.Error):
        async with asyncio.timeout(_AGENT_TIMEOUT), asyncssh.connect_agent(settings.agent_path) as agent:
            identities = settings.keys.agent_identities()
            pairs = await agent.get_keys(identities)
            return tuple(pair.get_comment() or pair.get_algorithm() for pair in pairs)
    return None
