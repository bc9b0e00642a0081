"""asyncssh's side of one login: what it shows is noted, what it asks is passed on to the person."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, NoReturn, TypeVar

import asyncssh
from asyncssh.public_key import SSHKeyPair

from rankdeck_backends import ssh_offers
from rankdeck_backends.asking import Kind
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.ssh_config import HostSettings
from rankdeck_backends.ssh_dial import Dialed
from rankdeck_backends.ssh_errors import Seen
from rankdeck_backends.ssh_keys import LockedKey
from rankdeck_backends.ssh_person import DeclinedError, LoginQuestions, declined

_GREETING_KEPT = 2000
"""Bytes: a line or two of it are shown."""
_NO_METHOD = "none"
"""What a client begins with, to be told the server's methods (RFC 4252, section 5.2)."""
GSSAPI = "gssapi-with-mic"
"""RFC 4462, section 3."""


class GssapiError(Exception):
    """The server takes Kerberos, and the config allows it.

    Attributes:
        told: the same as a NodeError.
        before_asking: there are other ways left, for which a person would have to be asked.
    """

    def __init__(self, told: NodeError, *, before_asking: bool = False) -> None:
        super().__init__(str(told))
        self.told = told
        self.before_asking = before_asking


class LockedKeyError(Exception):
    """The server takes this key, which needs a passphrase.

    Attributes:
        lock: the key.
    """

    def __init__(self, lock: LockedKey) -> None:
        super().__init__(str(lock.path))
        self.lock = lock


_Answer = TypeVar("_Answer")


class _LockedKeyPair(SSHKeyPair):
    """Offers an encrypted key by its public part, as ssh does; what it is for is asked when it is taken."""

    def __init__(
        self, client: LoginClient, lock: LockedKey, certificate: asyncssh.SSHCertificate | None = None
    ) -> None:
        key = lock.public
        super().__init__(
            key.algorithm,
            key.algorithm,
            key.sig_algorithms,
            key.sig_algorithms,
            key.public_data,
            key.get_comment_bytes(),
            certificate,
        )
        self._client = client
        self._lock = lock

    async def sign_async(self, data: bytes) -> bytes:
        """Sign, which asyncssh asks for once the server has said that it takes the key."""
        if self._lock.private is None:
            await self._client.stop(LockedKeyError(self._lock))
        return self._lock.private.sign(data, self.sig_algorithm)


class LoginClient(asyncssh.SSHClient):
    """Notes what a login shows, and trusts nothing that the known_hosts files do not.

    Args:
        node: the node it is for.
        settings: the host's.
        questions: answers the server's questions; None: nobody does.
        skipped: encrypted keys that stay closed.
        kerberos_first: nothing is asked where the server takes Kerberos.
    """

    def __init__(
        self,
        node: str,
        settings: HostSettings,
        questions: LoginQuestions | None,
        skipped: frozenset[LockedKey],
        *,
        kerberos_first: bool = False,
    ) -> None:
        self.seen = Seen()
        self.dialed: Dialed | None = None
        self.connection: asyncssh.SSHClientConnection | None = None
        self.stopped: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Why the login is not to go on, as soon as that is so."""
        self._node = node
        self._settings = settings
        self._questions = questions
        self._kerberos_first = kerberos_first
        self._locked = [pair for pair in settings.keys.locked() if pair[0] not in skipped]
        self._clock: asyncio.Timeout | None = None

    async def wait(self, task: asyncio.Task[asyncssh.SSHClientConnection], seconds: float) -> bool:
        """Wait for the login's end for that long, the time that a person takes to answer not counted."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self.seen.asking else seconds) as self._clock:
                self._seconds = seconds
                waited: set[asyncio.Future[Any]] = {task, self.stopped}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        self._clock = None
        return task.done() or self.stopped.done()

    async def stop(self, why: Exception) -> NoReturn:
        """End the login for this reason. Never returns: it is cancelled with the login."""
        if not self.stopped.done():
            self.stopped.set_result(why)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """There is a connection to speak SSH on."""
        self.connection = conn
        settings = self._settings
        ssh_offers.watch(conn, settings.keys, settings.agent_path, self.seen.offers)
        try_next = conn.try_next_auth

        def try_next_auth(*, next_method: bool = False) -> None:
            self._note_methods()  # asyncssh drops each method that it is through with
            try_next(next_method=next_method)

        conn.try_next_auth = try_next_auth  # type: ignore[method-assign]
        self._listen(conn)

    def _listen(self, conn: asyncssh.SSHClientConnection) -> None:
        """Keep what the server says in place of its version, which asyncssh drops (RFC 4253, section 4.2)."""
        take = conn.data_received

        def data_received(data: bytes, datatype: asyncssh.DataType = None) -> None:
            self.seen.greeting = (self.seen.greeting + data)[:_GREETING_KEPT]
            if b"SSH-" in self.seen.greeting or len(self.seen.greeting) == _GREETING_KEPT:
                conn.data_received = take  # type: ignore[method-assign]
            take(data, datatype)

        conn.data_received = data_received  # type: ignore[method-assign]

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self.dialed is not None:
            self.dialed.hang_up()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Take note of a host key that is not among the trusted ones."""
        self.seen.shown_key = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Take note of a certificate authority that is not among the trusted ones."""
        self.seen.shown_ca = key
        return False

    def public_key_auth_requested(self) -> list[SSHKeyPair] | None:
        """The encrypted keys: asked for when the agent's keys and the open ones have been refused."""
        locked, self._locked = self._locked, []
        pairs: list[SSHKeyPair] = []
        for lock, certificate in locked:
            if lock.private is not None or self._questions is not None:
                pairs += [_LockedKeyPair(self, lock, certificate)] if certificate is not None else []
                pairs.append(_LockedKeyPair(self, lock))
        return pairs or None

    async def password_auth_requested(self) -> str | None:
        """The user's password; asked for again where it was refused."""
        await self._prefer_kerberos()
        return await self._asked(self._questions.password()) if self._questions is not None else None

    async def kbdint_auth_requested(self) -> str | None:
        """Whether the server may ask what it likes, RFC 4256: any of its ways (empty), or none."""
        await self._prefer_kerberos()
        return "" if self._questions is not None and await self._questions.may_ask(Kind.PROMPTS) else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Answers to one round of the server's questions."""
        if self._questions is None:
            return None
        return await self._asked(self._questions.challenge(name, instructions, prompts))

    async def _prefer_kerberos(self) -> None:
        if self._kerberos_first and self._settings.gssapi and GSSAPI in self.seen.methods:
            what = (
                f"{self._settings.target} takes Kerberos (GSSAPI), which rankdeck leaves to the system's ssh"
            )
            await self.stop(GssapiError(NodeError(self._node, Step.AUTH, what), before_asking=True))

    async def _asked(self, answering: Awaitable[_Answer]) -> _Answer | None:
        """A person's answer. The clock stands still meanwhile."""
        self.seen.asking = True
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(None)
        try:
            answer = await answering
        except DeclinedError:
            await self.stop(declined(self._node, self._settings, "an answer"))
        except NodeError as error:
            await self.stop(error)
        else:
            # Not where it was cancelled: then the server hung up while it waited.
            self.seen.asking = False
            self.seen.answers += bool(answer)
            return answer
        finally:
            if self._clock is not None and not self._clock.expired():
                self._clock.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def _note_methods(self) -> None:
        if self.connection is not None:
            methods = self.connection.get_server_auth_methods()
            if methods != [_NO_METHOD]:
                self.seen.methods_told = True
                self.seen.methods.update(dict.fromkeys(methods))

    def look(self) -> Seen:
        """What is to be seen now."""
        connection = self.connection
        if connection is not None:
            self.seen.connected = True
            self.seen.banner = bool(connection.get_extra_info("server_version"))
            self.seen.let_through = connection.get_server_host_key() is not None
        if self.dialed is not None:
            self.seen.proxy_said = self.dialed.said()
            self.seen.proxy_ended = self.dialed.ended()
        return self.seen
