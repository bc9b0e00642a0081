"""Connections to nodes, shared by all that one engine does: one agent session a node."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rankdeck_backends import open_backend
from rankdeck_backends.asking import Asker
from rankdeck_backends.base import Backend
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.model import BackendKind, PoolNode
from rankdeck_runs.values import number

LINGER = 30.0
"""Seconds that an unused connection is kept: planning is followed by launching, launching by following."""
OPENED_AT_ONCE = 32
"""How many agents of this machine's own nodes are being started at the same time. Backends that reach other
machines have limits of their own, which leave out those that wait for a person: of a pool's unknown host
keys, all are to be shown together."""


@dataclass(slots=True)
class _Link:
    opening: asyncio.Task[AgentConnection]
    users: int = 0
    skew: float = 0.0
    closer: asyncio.TimerHandle | None = None


class Links:
    """Opens, shares and closes connections. Lives on the engine's loop.

    Args:
        connect_timeout: seconds for each step of a login.
        asker: asks the person what logins need; None: nothing is asked.
    """

    def __init__(self, connect_timeout: float, asker: Asker | None = None) -> None:
        self._connect_timeout = connect_timeout
        self._asker = asker
        self._backends: dict[BackendKind, Backend] = {}
        self._links: dict[tuple[BackendKind, PoolNode], _Link] = {}
        self._slots = asyncio.Semaphore(OPENED_AT_ONCE)
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self, kind: BackendKind, node: PoolNode) -> AsyncIterator[AgentConnection]:
        """A connection to the node, made now or shared with others; it stays open while anyone uses it.

        Raises:
            NodeError: it can't be reached.
        """
        key = (kind, node)
        link = self._links.get(key)
        if link is None or _is_dead(link):
            link = _Link(asyncio.create_task(self._open(kind, node), name=f"open {node.name}"))
            self._links[key] = link
        link.users += 1
        if link.closer is not None:
            link.closer.cancel()
            link.closer = None
        try:
            # Shielded: others may wait for the same connection when this user gives up.
            yield await asyncio.shield(link.opening)
        finally:
            link.users -= 1
            if link.users == 0:
                self._leave(key, link)

    def skew(self, kind: BackendKind, node: PoolNode) -> float:
        """Seconds that the node's clock was ahead of ours when the connection was made; 0 without one."""
        link = self._links.get((kind, node))
        return link.skew if link is not None else 0.0

    async def close_unused(self) -> None:
        """Close what nobody uses, now."""
        for key, link in list(self._links.items()):
            if link.users == 0:
                self._close(key, link)
        await self._closed()

    async def close(self) -> None:
        """Close everything."""
        for key, link in list(self._links.items()):
            self._close(key, link)
        await self._closed()
        for backend in self._backends.values():
            await backend.close()
        self._backends.clear()

    async def _open(self, kind: BackendKind, node: PoolNode) -> AgentConnection:
        if kind not in self._backends:
            self._backends[kind] = open_backend(
                kind, connect_timeout=self._connect_timeout, asker=self._asker
            )
        async with self._slots if kind is BackendKind.LOCAL else contextlib.nullcontext():
            connection = await self._backends[kind].open(node)
        told = number(connection.hello, "time")
        link = self._links.get((kind, node))
        if link is not None and told is not None:
            link.skew = told - time.time()
        return connection

    def _leave(self, key: tuple[BackendKind, PoolNode], link: _Link) -> None:
        if _is_dead(link):
            if self._links.get(key) is link:
                del self._links[key]
            return
        loop = asyncio.get_running_loop()
        link.closer = loop.call_later(LINGER, self._close, key, link)

    def _close(self, key: tuple[BackendKind, PoolNode], link: _Link) -> None:
        if link.closer is not None:
            link.closer.cancel()
        if self._links.get(key) is link:
            del self._links[key]
        task = asyncio.create_task(_close_link(link), name=f"close {key[1].name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _closed(self) -> None:
        if self._closing:
            await asyncio.wait(set(self._closing))


async def _close_link(link: _Link) -> None:
    if not link.opening.done():
        link.opening.cancel()
    # Whoever waited for the connection was told why there is none.
    with contextlib.suppress(asyncio.CancelledError, Exception):
        connection = await link.opening
        await connection.close()


def _is_dead(link: _Link) -> bool:
    if not link.opening.done():
        return False
    if link.opening.cancelled() or link.opening.exception() is not None:
        return True
    return link.opening.result().closed.done()
