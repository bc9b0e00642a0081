"""What is asked of one node over one connection, and where the answers go."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_runs.mirror import GapError
from rankdeck_runs.proving import Proof, digests, prove
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.targets import Target, run_folder
from rankdeck_runs.values import integer, number

SAMPLE_SECONDS = 2.0
SHARED_PATIENCE = 10.0
"""Seconds for bytes on a shared file system to be seen here: NFS attribute caches hold for 3 to 60 s
(nfs(5): acregmin, acregmax), but opening a file asks the server again."""
REVIVAL_SECONDS = 10.0
"""How long a node may take to say that its run is supervised. It starts a supervisor where the old one was
killed, or went with a restart of the node; only that one knows which ranks are gone."""
_LOOK_SECONDS = 0.05


class NodeSession:
    """Asks one node about one run.

    Args:
        connection: to the node.
        target: the node.
        writer: takes what comes.
    """

    def __init__(self, connection: AgentConnection, target: Target, writer: RunWriter) -> None:
        self._connection = connection
        self._target = target
        self._writer = writer
        self._directory = run_folder(target, writer.record.id, connection)
        self._follow_id: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._supervised = False

    async def follow(self, names: tuple[str, ...], *, samples: float = SAMPLE_SECONDS) -> bool:
        """Take in all that happens, until the node has ended and every byte of these logs is here.

        Args:
            names: the logs.
            samples: seconds between samples of its load; 0 for none.

        Returns:
            True if the node has ended; False if it just left off.

        Raises:
            NodeRefusal: it knows nothing of the run, or the request was wrong.
            NodeError: the connection is gone.
            GapError: bytes were missed; following again brings them.
            OSError: the record can't be written.
        """
        if self._follow_id.done():
            self._follow_id = asyncio.get_running_loop().create_future()
        reply = await self._connection.stream(
            "follow",
            self._take,
            started=self._follow_id.set_result,
            dir=self._directory,
            since=self._writer.live.last_seq(self._target.name),
            logs=list(names),
            offsets=self._offsets(names),
            samples=samples,
        )
        return reply.header.get("state") is not None

    async def watch(self, names: tuple[str, ...], before: tuple[str, ...]) -> None:
        """Have the running follow send other logs.

        Args:
            names: the logs from now on.
            before: those until now; what is in both goes on from where it is.
        """
        new = tuple(name for name in names if name not in before)
        follow = await asyncio.shield(self._follow_id)
        await self._connection.request("watch", follow=follow, logs=list(names), offsets=self._offsets(new))

    async def bring(self, names: tuple[str, ...]) -> bool:
        """Take in what there is now.

        Returns:
            True if the node has ended: then all is here. Raises as `follow` does.
        """
        sizes = await self._sizes_now(names)
        following = asyncio.create_task(self.follow(names, samples=0))
        try:
            await self._events_came(following)
            if await self._revived(following):
                await self._events_came(following)
            while not following.done() and (self._node_ended() or not self._here(sizes)):
                await asyncio.wait([following], timeout=_LOOK_SECONDS)
            return following.done() and following.result()
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, RankdeckError):
                await following

    async def prove(self, names: tuple[str, ...]) -> Proof | None:
        """Whether the record's copies of these logs are the node's: see `proving.prove`."""
        return await prove(self._connection, self._directory, self._target, self._writer, names)

    async def shared_bytes_seen(self) -> None:
        """Wait until the bytes that the ranks wrote into the record themselves are seen here."""
        deadline = time.monotonic() + SHARED_PATIENCE
        # Files on another machine's disk: nothing tells when they change.
        while time.monotonic() < deadline and not self._shared_bytes_here():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    async def _events_came(self, following: asyncio.Task[bool]) -> None:
        """Wait until all events that there were have come.

        The agent answers in order, and a follow's events are read and sent in the turn after its request:
        the first ping's answer may come before them, the second one's can't.
        """
        asked: set[asyncio.Future[Any]] = {following, self._follow_id}
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(2):
            await self._connection.request("ping")

    async def _revived(self, following: asyncio.Task[bool]) -> bool:
        """Wait until the run has a supervisor or has ended; whether that took waiting."""
        waited = False
        deadline = time.monotonic() + REVIVAL_SECONDS
        while not (self._supervised or self._node_ended() or following.done()):
            if time.monotonic() > deadline:
                break
            waited = True
            await asyncio.wait([following], timeout=_LOOK_SECONDS)
        return waited

    async def _sizes_now(self, names: tuple[str, ...]) -> dict[str, int]:
        found = await digests(self._connection, self._directory, names, self._writer, hashed=False)
        return {name: digest.size for name, digest in found.items()}

    def _here(self, sizes: Mapping[str, int]) -> bool:
        here = self._offsets(tuple(sizes))
        return all(here.get(name, size) >= size for name, size in sizes.items())

    def _node_ended(self) -> bool:
        nodes = self._writer.live.snapshot().nodes
        return any(node.name == self._target.name and node.state.is_terminal for node in nodes)

    def _offsets(self, names: tuple[str, ...]) -> dict[str, int]:
        files = {name: layout.from_protocol(name, self._target.node_rank) for name in names}
        return {name: self._writer.mirror.size(file) for name, file in files.items() if file is not None}

    def _shared_bytes_here(self) -> bool:
        log = self._writer.record.log
        for rank in self._writer.live.snapshot().ranks:
            if rank.node == self._target.name:
                for stream, size in (("out", rank.out_bytes), ("err", rank.err_bytes)):
                    if size is not None and log(rank.rank, stream, rank.attempt).size < size:
                        return False
        return True

    # What comes.

    def _take(self, header: Mapping[str, Any], body: bytes) -> None:
        match header.get("ev"):
            case "logs":
                self._writer.logs(self._target.node_rank, log_parts(header.get("parts"), body))
            case "event":
                event = header.get("event")
                if isinstance(event, dict):
                    self._writer.node_event(self._target.name, event)
            case "sizes":
                self._take_sizes(header.get("sizes"))
            case "supervisor":
                self._take_supervised(header.get("alive") is True)
            case "sample":
                sample = header.get("sample")
                if isinstance(sample, dict):
                    self._writer.sample(self._target.name, sample)

    def _take_supervised(self, alive: bool) -> None:
        self._supervised = alive
        nodes = self._writer.live.snapshot().nodes
        known = next(node.unguarded for node in nodes if node.name == self._target.name)
        if known is alive:
            ev = "supervisor_found" if alive else "supervisor_gone"
            self._writer.own_event(ev, node=self._target.name)

    def _take_sizes(self, sizes: object) -> None:
        if not isinstance(sizes, dict):
            return
        for name, value in sizes.items():
            if isinstance(value, list) and len(value) == 2:
                told = {"size": value[0], "quiet": value[1]}
                size, quiet = integer(told, "size"), number(told, "quiet")
                if size is not None:
                    grown = None if quiet is None else time.time() - quiet
                    self._writer.live.set_size(str(name), size, grown)


def log_parts(told: object, body: bytes) -> list[tuple[str, int, memoryview]]:
    """The pieces of one `logs` event: name, offset and bytes of each.

    Raises:
        GapError: the event's parts are not what its body holds.
    """
    # Many ranks send some thousand pieces a second: plain tests, as patterns cost twice the time.
    found: list[tuple[str, int, memoryview]] = []
    at, view = 0, memoryview(body)
    for part in told if type(told) is list else ():
        if type(part) is list and len(part) == 3:
            name, offset, length = part
            if type(name) is str and type(offset) is type(length) is int and offset >= 0 and length >= 0:
                found.append((name, offset, view[at : at + length]))
                at += length
                continue
        raise GapError(f"the node told of a piece of a log in words not known here: {part!r:.80}")
    if at != len(body):
        raise GapError(f"the node told of {at} bytes of logs and sent {len(body)}")
    return found


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something else meanwhile. It ends with the block; that a node could not do it fails nothing."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, RankdeckError):
            await task
