"""The bytes under an SSH connection: a TCP connection, or the user's ProxyCommand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import cast

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.ssh_config import HostSettings

_RESOLVERS = ThreadPoolExecutor(32, thread_name_prefix="resolve")
"""Look-ups block a thread each. The loop's own pool is as small as the machine: a few names that hang would
keep all others waiting until they count as hanging, too."""
TCP_RTO_MAX_MS = 44
"""linux/tcp.h, from Linux 6.15 on: the longest pause between two tries to send the same again."""
_RTO_MAX_MS = 4000
"""The kernel's own is 120 s, and its pauses double from 0.2 s on: after a cut of 13 s the next try comes
at the 26th second, when the connection counts as lost. This way a cut of 20 s costs nothing where the node
had nothing to send."""
_KEPT_STDERR = 4 << 10
_PROXY_GRACE = 2.0
"""Seconds a ProxyCommand has to end once its connection is closed."""


@dataclass(frozen=True, slots=True)
class Dialed:
    """A connected socket, and what is to be known and done about its other end."""

    sock: socket.socket
    said: Callable[[], bytes] = bytes
    """What a ProxyCommand has written to stderr so far."""
    ended: Callable[[], int | None] = lambda: None
    """The status with which a ProxyCommand has ended by itself, if it has; a signal's number below 0."""
    hang_up: Callable[[], asyncio.Task[None] | None] = lambda: None
    """Call when the connection is over; the task, if there is one, is done when its other end is gone."""


async def dial(node: str, settings: HostSettings, timeout: float) -> Dialed:  # noqa: ASYNC109
    """Connect to a host as its settings say, ProxyJump apart.

    Args:
        node: the node it is for, named by errors.
        settings: where and how.
        timeout: seconds for the look-up of its name, and again for the connection.

    Raises:
        NodeError: step `resolve` or `connect`.
    """
    if settings.proxy_command:
        return await _start_proxy(node, settings.proxy_command)
    addresses = await _resolve(node, settings, timeout)
    return Dialed(await _connect(node, settings, addresses, timeout))


_Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def _resolve(node: str, settings: HostSettings, limit: float) -> list[_Address]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limit):
            found = await loop.run_in_executor(
                _RESOLVERS,
                partial(
                    socket.getaddrinfo,
                    settings.host,
                    settings.port,
                    family=settings.family,
                    type=socket.SOCK_STREAM,
                ),
            )
    except TimeoutError:
        raise NodeError(
            node,
            Step.RESOLVE,
            f"no answer to the look-up of the name '{settings.host}' within {limit:g} s",
            "check this machine's name service (DNS), or give the node's address in the pool",
        ) from None
    except (OSError, UnicodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise NodeError(
            node,
            Step.RESOLVE,
            f"the name '{settings.host}' does not resolve: {reason}",
            "check its spelling in the pool, or give it a HostName in the ssh config",
        ) from None
    return [(socket.AddressFamily(entry[0]), entry[4]) for entry in found]


async def _connect(
    node: str, settings: HostSettings, addresses: list[_Address], limit: float
) -> socket.socket:
    """Try the addresses in order; the time is shared out: a dead first one leaves some for the others."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    problems: list[str] = []
    for position, (family, address) in enumerate(addresses):
        share = max(0.1, end - loop.time()) / (len(addresses) - position)
        sock = None
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            if settings.bind_address:
                sock.bind((settings.bind_address, 0))
            with contextlib.suppress(OSError):  # an older kernel
                sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, _RTO_MAX_MS)
            async with asyncio.timeout(share):
                await loop.sock_connect(sock, address)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            problems.append(_connect_problem(settings, str(address[0]), error, limit))
        else:
            return sock
    raise NodeError(
        node,
        Step.CONNECT,
        "; ".join(dict.fromkeys(problems)),
        f"check that the node is up and that sshd listens there: `{settings.command_line}`",
    )


def _connect_problem(settings: HostSettings, address: str, error: OSError, limit: float) -> str:
    where = f"{settings.host} ({address})" if address != settings.host else address
    if isinstance(error, TimeoutError):
        return f"{where} port {settings.port} did not answer within {limit:g} s"
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refused the connection to port {settings.port}"
    # asyncio's strerror says "Connect call failed", not why.
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"no connection to {where} port {settings.port}: {reason}"


async def _start_proxy(node: str, command: str) -> Dialed:
    """Run a ProxyCommand as ssh does, by the shell, with one end of a socket pair as its stdin and stdout."""
    ours, theirs = socket.socketpair()
    try:
        _, proxy = await asyncio.get_running_loop().subprocess_exec(
            _Proxy,
            "/bin/sh",
            "-c",
            f"exec {command}",
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except BaseException as error:
        ours.close()
        if isinstance(error, OSError):
            raise NodeError(node, Step.CONNECT, f"the ProxyCommand cannot be started: {error}") from None
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return Dialed(ours, proxy.said, proxy.ended, proxy.hang_up)


class _Proxy(asyncio.SubprocessProtocol):
    """A running ProxyCommand."""

    def __init__(self) -> None:
        self._process: asyncio.SubprocessTransport | None = None
        self._stderr = b""
        self._exited = asyncio.Event()
        self._finished = asyncio.Event()
        self._over: asyncio.Task[None] | None = None
        self._ended: int | None = None
        self._killed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-_KEPT_STDERR:]

    def process_exited(self) -> None:
        if self._process is not None and not self._killed:
            self._ended = self._process.get_returncode()
        self._exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finished.set()

    def said(self) -> bytes:
        return self._stderr

    def ended(self) -> int | None:
        return self._ended

    def hang_up(self) -> asyncio.Task[None]:
        if self._over is None:
            self._over = asyncio.create_task(self._end())
        return self._over

    async def _end(self) -> None:
        """Leave it time to end by itself and for its last words; a child of its own may hold stderr open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROXY_GRACE):
                await self._exited.wait()
                await self._finished.wait()
        if self._process is not None:
            self._killed = True
            self._process.close()  # kills it if it is still there
        await self._exited.wait()
