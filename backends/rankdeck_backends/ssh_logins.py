"""Logins over SSH as the user's own ssh config says: jump hosts, how many at once, further tries."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass

import asyncssh

from rankdeck_backends import open_files
from rankdeck_backends.asking import Asker, Hop
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.kerberos import Ticket
from rankdeck_backends.ssh_client import GssapiError, LockedKeyError
from rankdeck_backends.ssh_config import ConfigError, HostSettings, SshConfig
from rankdeck_backends.ssh_keys import LockedKey
from rankdeck_backends.ssh_login import (
    DroppedError,
    StrangeAlgorithmsError,
    UnknownHostError,
    log_in,
    say_goodbye,
    settled,
)
from rankdeck_backends.ssh_names import CONFIG_VARIABLE
from rankdeck_backends.ssh_person import Person
from rankdeck_profiles.model import PoolNode

_AT_ONCE = 32
"""Logins under way at once. Measured with 16 to 256 nodes: more gains nothing, 8 costs up to a third."""
_AT_ONCE_PER_ADDRESS = 8
"""Logins under way at one sshd: its MaxStartups drops some from the tenth on (10:30:100, sshd_config(5))."""
_RETRIES = 4
"""Further tries where a server hangs up before the key exchange."""
_RETRY_DELAY = 0.3
"""Seconds before the first of them, on average; doubled each time, with jitter."""
_CONFIG_PATIENCE = 3.0
"""How many times the connect timeout the ssh config may take: its `Match exec` may ask the network."""
_FAREWELL_LIMIT = 5.0
"""Seconds to wait for closed connections to be gone."""

_LoginTask = asyncio.Task[asyncssh.SSHClientConnection]

# asyncssh logs what we raise. With no handler at all Python would print that into the screen.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())


class BeyondUsError(Exception):
    """This way of logging in is not rankdeck's own; the system's ssh may know it.

    Attributes:
        told: the same as a NodeError.
        why: in words, what the system's ssh is needed for.
        before_asking: if that does not get further, there are ways left for which a person is asked.
    """

    def __init__(self, told: NodeError, why: str, *, before_asking: bool = False) -> None:
        super().__init__(str(told))
        self.told = told
        self.why = why
        self.before_asking = before_asking

    def again(self, node: str, where: str) -> BeyondUsError:
        """The same for a node behind this jump host."""
        return BeyondUsError(self.told.again(node, where), self.why, before_asking=self.before_asking)


@dataclass(frozen=True, slots=True)
class Login:
    """A node that has let us in."""

    settings: HostSettings
    """The node's own, by which it was reached."""
    ssh: asyncssh.SSHClientConnection
    note: str = ""
    """What a person should know of it."""

    @property
    def direct(self) -> bool:
        """Whether no other host or program lies between."""
        return not self.settings.jump and not self.settings.proxy_command


class Logins:
    """Logs in to nodes. Host keys are always verified.

    Args:
        connect_timeout: seconds for each step of a login, where the config names no ConnectTimeout.
        asker: asks the person for what only they know; None: what would have to be asked is refused.
    """

    def __init__(self, *, connect_timeout: float, asker: Asker | None = None) -> None:
        self._person = Person(asker)
        self._ticket = Ticket()
        self._kerberos_fails: set[str] = set()
        """Nodes that no ticket gets in to."""
        self._notes: dict[str, list[str]] = {}
        """By node, what is to be said once it is reached."""
        self._timeout = connect_timeout
        self._config = SshConfig()
        self._hops: dict[tuple[str, ...], _LoginTask] = {}
        """The jump hosts' connections, by the way to them: shared by all nodes behind them."""
        self._farewells: set[asyncio.Task[None]] = set()
        self._openings = asyncio.Semaphore(_AT_ONCE)
        self._gates: dict[tuple[str, int] | None, asyncio.Semaphore] = {}
        """By the address connected to; None: all that go by a ProxyCommand, most often through one host."""

    async def connect(self, node: PoolNode) -> Login:
        """A connection of its own to the node.

        Raises:
            NodeError: at the first step that failed.
            BeyondUsError: the system's ssh may get further.
        """
        settings = await self._settings(node.name, node.host, node.user, node.port)
        route = await self._route(node.name, settings)
        tunnel = await self._tunnel(node.name, route)
        hop = Hop(node.name, settings.name, len(route) + 1, len(route) + 1)
        ssh = await self._log_in(hop, settings, tunnel)
        return Login(settings, ssh, "; ".join(self._notes.pop(node.name, ())))

    def kerberos_fails(self, node: str) -> None:
        """No ticket gets in to this node: the next login there begins with the other ways."""
        self._kerberos_fails.add(node)

    def let_go(self, ssh: asyncssh.SSHClientConnection) -> None:
        """Close a connection in the background."""
        task = asyncio.create_task(say_goodbye(ssh))
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        """Close the connections to jump hosts, and wait until what was closed before is gone."""
        await self._person.close()
        tasks, self._hops = list(self._hops.values()), {}
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, asyncssh.SSHClientConnection):
                self.let_go(result)
        if self._farewells:
            await asyncio.wait(self._farewells, timeout=_FAREWELL_LIMIT)

    async def _settings(self, node: str, host: str, user: str | None, port: int | None) -> HostSettings:
        limit = self._timeout * _CONFIG_PATIENCE
        try:
            async with asyncio.timeout(limit):
                return await asyncio.to_thread(self._config.settings, host, user, port)
        except TimeoutError:
            raise NodeError(
                node,
                Step.CONFIG,
                f"the ssh config was not read within {limit:g} s",
                "a `Match exec` in it may hang, or the file system that ~/.ssh is on",
            ) from None
        except ConfigError as error:
            hint = f"correct it, or name another one in {CONFIG_VARIABLE}"
            told = NodeError(node, Step.CONFIG, str(error), hint)
            raise BeyondUsError(told, "the ssh config has something that rankdeck does not read") from None

    async def _log_in(
        self, hop: Hop, settings: HostSettings, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        """Log in, again if the server hangs up early or the person has made it possible to get further.

        No more logins at once than servers like; while a person is asked for a host key or a passphrase,
        none is under way.
        """
        at = None if settings.proxy_command else (settings.host, settings.port)
        gate = self._gates.setdefault(at, asyncio.Semaphore(_AT_ONCE_PER_ADDRESS))
        timeout = settings.timeout or self._timeout
        skipped: set[LockedKey] = set()
        drops = 0
        while True:
            questions = self._person.questions(hop, settings)
            kerberos_first = (
                questions is not None
                and settings.gssapi
                and hop.node not in self._kerberos_fails
                and bool(await self._ticket.there())
            )
            try:
                async with gate, self._openings:
                    open_files.require_room(hop.node)
                    ssh = await log_in(
                        hop.node,
                        settings,
                        tunnel,
                        timeout,
                        questions=questions,
                        skipped=frozenset(skipped),
                        kerberos_first=kerberos_first,
                    )
                    if gate.locked():
                        await settled(ssh, timeout)
                    return ssh
            except DroppedError as error:
                told = error.told
                drops += 1
                if drops > _RETRIES:
                    raise NodeError(hop.node, told.step, f"{told.what} ({drops} tries)", told.hint) from None
                await asyncio.sleep(_RETRY_DELAY * 2 ** (drops - 1) * random.uniform(0.5, 1.5))
            except GssapiError as error:
                if await self._ticket.there() is False:
                    raise error.told from None
                why = f"{settings.host} takes Kerberos, GSSAPI"
                raise BeyondUsError(error.told, why, before_asking=error.before_asking) from None
            except StrangeAlgorithmsError as error:
                why = f"{settings.host} wants algorithms that rankdeck does not have"
                raise BeyondUsError(error.told, why) from None
            except UnknownHostError as error:
                if note := await self._person.takes(hop, settings, error.key, error.told):
                    self._notes.setdefault(hop.node, []).append(note)
            except LockedKeyError as error:
                if not await self._person.opens(hop, settings, error.lock):
                    skipped.add(error.lock)

    async def _route(
        self, node: str, settings: HostSettings, behind: tuple[str, ...] = ()
    ) -> list[HostSettings]:
        """The jump hosts in front of a host, in the order they are passed; empty if it is reached directly.

        The first one of a ProxyJump may have its own in front; the others are reached through the one before.
        """
        route: list[HostSettings] = []
        passed = (*behind, settings.name)
        for spec in settings.jump.split(",") if settings.jump else ():
            user, host, port = _parse_hop(spec.strip())
            if host in passed:
                circle = " > ".join((*passed, host))
                raise NodeError(node, Step.CONFIG, f"the ssh config's ProxyJump leads in a circle: {circle}")
            hop = await self._settings(node, host, user, port)
            if not route:
                route = await self._route(node, hop, passed)
            route.append(hop)
        return route

    async def _tunnel(self, node: str, route: list[HostSettings]) -> asyncssh.SSHClientConnection | None:
        """The connection to the last jump host of a route; None if there is none."""
        tunnel: asyncssh.SSHClientConnection | None = None
        for position, settings in enumerate(route, 1):
            key = tuple(f"{each.user}@{each.host}:{each.port}" for each in route[:position])
            hop = Hop(node, settings.name, position, len(route) + 1)
            task = self._hops.get(key)
            if task is None or _is_over(task):
                task = self._hops[key] = asyncio.create_task(self._log_in(hop, settings, tunnel))
            try:
                # Others may wait for it, too: it goes on if this node's opening is given up.
                tunnel = await asyncio.shield(task)
            except NodeError as error:
                raise error.again(node, hop.label) from None
            except BeyondUsError as error:
                raise error.again(node, hop.label) from None
        return tunnel


def _parse_hop(spec: str) -> tuple[str | None, str, int | None]:
    """`[user@]host[:port]` or `[user@][v6 address]:port`, as ProxyJump has it, or as an ssh:// address."""
    rest = spec.removeprefix("ssh://").rstrip("/")
    user, at, rest = rest.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    return (user if at else None), host, (int(port) if port.isdigit() else None)


def _is_over(task: _LoginTask) -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()
