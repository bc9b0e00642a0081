"""One login: from a dialed host (or a jump host's connection) to an authenticated SSH connection."""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from rankdeck_backends import ssh_errors
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.ssh_client import GSSAPI, GssapiError, LoginClient
from rankdeck_backends.ssh_config import HostSettings
from rankdeck_backends.ssh_dial import dial
from rankdeck_backends.ssh_keys import LockedKey
from rankdeck_backends.ssh_person import LoginQuestions

_AUTH_PATIENCE = 2.0
"""How many times the connect timeout a login may take once the host is verified: accounts may be slow."""


class DroppedError(Exception):
    """The server hung up before the key exchange was through: worth another try (MaxStartups).

    Attributes:
        told: the same as a NodeError, for when there is no other try.
    """

    def __init__(self, told: NodeError) -> None:
        super().__init__(str(told))
        self.told = told


class StrangeAlgorithmsError(Exception):
    """The server and asyncssh have no algorithms in common; the system's ssh may have more.

    Attributes:
        told: the same as a NodeError.
    """

    def __init__(self, told: NodeError) -> None:
        super().__init__(str(told))
        self.told = told


class UnknownHostError(Exception):
    """The host showed a key that no known_hosts file knows, and none of the same type is known.

    Attributes:
        told: the same as a NodeError.
        key: the key.
    """

    def __init__(self, told: NodeError, key: asyncssh.SSHKey) -> None:
        super().__init__(str(told))
        self.told = told
        self.key = key


async def log_in(
    node: str,
    settings: HostSettings,
    tunnel: asyncssh.SSHClientConnection | None,
    timeout: float,  # noqa: ASYNC109 - it is for each step, not for the whole
    *,
    questions: LoginQuestions | None = None,
    skipped: frozenset[LockedKey] = frozenset(),
    kerberos_first: bool = False,
) -> asyncssh.SSHClientConnection:
    """Log in once.

    Args:
        node: the node it is for, named by errors.
        settings: where and how.
        tunnel: the connection to the jump host in front of it, if there is one.
        timeout: seconds for each step: look-up, connection, key exchange; twice that for the authentication.
        questions: answers what the server asks; None: nobody does.
        skipped: encrypted keys that are not to be offered.
        kerberos_first: nothing is asked where the server takes Kerberos: that may get in without.

    Raises:
        NodeError: step `config`, `resolve`, `connect`, `host key` or `auth`.
        GssapiError: the server takes Kerberos, and the config allows it.
        StrangeAlgorithmsError: they have no algorithms in common.
        UnknownHostError: its host key is new; it may be accepted, then another login gets further.
        LockedKeyError: the server takes an encrypted key; once it is unlocked, another login gets further.
        DroppedError: the server hung up before the key exchange was through.
    """
    client = LoginClient(node, settings, questions, skipped, kerberos_first=kerberos_first)
    options = _options(node, settings, client)
    if tunnel is None:
        client.dialed = await dial(node, settings, timeout)
        opening = asyncssh.run_client(client.dialed.sock, config=None, options=options)
    else:
        opening = asyncssh.connect(
            settings.name, settings.port, username=settings.user, tunnel=tunnel, config=None, options=options
        )
    task = asyncio.ensure_future(_opened(opening))
    try:
        limit = timeout
        over = await client.wait(task, timeout)
        if not over and client.look().let_through:
            limit += timeout * _AUTH_PATIENCE
            over = await client.wait(task, timeout * _AUTH_PATIENCE)
        if client.stopped.done():
            raise client.stopped.result()
        if not over:
            raise ssh_errors.timed_out(node, settings, client.look(), limit)
        try:
            return task.result()
        except (asyncssh.Error, OSError, ValueError) as error:
            raise await _explained(node, settings, client, error) from None
    finally:
        if not task.done() or task.cancelled() or task.exception() is not None:
            await _give_up(task, client)


async def settled(connection: asyncssh.SSHClientConnection, timeout: float) -> None:  # noqa: ASYNC109
    """Wait, but no longer, until the server does not count this login among those that MaxStartups limits.

    sshd tells the client that it is in before it tells its listener; whatever it answers after that comes
    from a process that it starts later still (sshd.c: `startup_pipe` is closed, then privsep_postauth forks).
    """
    try:
        async with asyncio.timeout(timeout):
            await connection._make_global_request(b"keepalive@openssh.com")
    except (TimeoutError, asyncssh.Error, OSError):
        pass  # what the connection is used for next will tell
    except asyncio.CancelledError:
        connection.abort()
        raise


async def say_goodbye(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection and wait until it and what carried it are gone."""
    client = connection.get_owner()  # it has none any more once it is closed
    connection.close()
    await connection.wait_closed()
    if isinstance(client, LoginClient) and client.dialed is not None:
        over = client.dialed.hang_up()
        if over is not None:
            await over


def _options(node: str, settings: HostSettings, client: LoginClient) -> asyncssh.SSHClientConnectionOptions:
    """The host's, for this one login. asyncssh looks up the user and opens files even here."""
    try:
        return asyncssh.SSHClientConnectionOptions(options=settings.options, client_factory=lambda: client)
    except (OSError, ValueError, asyncssh.Error) as error:
        raise NodeError(node, Step.CONFIG, f"its settings cannot be used: {error}") from None


async def _opened(opening: object) -> asyncssh.SSHClientConnection:
    connection: asyncssh.SSHClientConnection = await opening  # type: ignore[misc]
    return connection


async def _give_up(task: asyncio.Task[asyncssh.SSHClientConnection], client: LoginClient) -> None:
    task.cancel()
    if client.connection is not None:
        client.connection.abort()
    elif client.dialed is not None:
        client.dialed.sock.close()
    with contextlib.suppress(asyncio.CancelledError, asyncssh.Error, OSError, ValueError):
        await task
    if client.dialed is not None and (over := client.dialed.hang_up()) is not None:
        await over


async def _explained(node: str, settings: HostSettings, client: LoginClient, error: Exception) -> Exception:
    if client.dialed is not None and (over := client.dialed.hang_up()) is not None:
        await over
    seen = client.look()
    told = ssh_errors.login_failed(node, settings, seen, error)
    if ssh_errors.is_new_key(settings, seen, error) and seen.shown_key is not None:
        return UnknownHostError(told, seen.shown_key)
    if isinstance(error, asyncssh.PermissionDenied) and settings.gssapi and GSSAPI in seen.methods:
        return GssapiError(told)
    if isinstance(error, asyncssh.KeyExchangeFailed) and not seen.let_through:
        return StrangeAlgorithmsError(told)
    return DroppedError(told) if ssh_errors.may_pass(seen, error) else told
