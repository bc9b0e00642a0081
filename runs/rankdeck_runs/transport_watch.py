"""Reads in a run's logs which network its ranks use, while they start, and records it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable

from rankdeck_runs import layout
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.targets import Targets
from rankdeck_runs.transport import READ_LIMIT, Transport, TransportReader, unused

LOOK_SECONDS = 0.5
"""Between two looks at logs that have grown."""
CHUNK = 64 << 10
"""Bytes of one log that are read at one look: many ranks' first lines are not to keep the screens waiting."""

_STREAMS = ("out", "err")
_Log = tuple[int, str]


class TransportWatch:
    """Looks at the beginning of each log as it is in the record, beside the way by which it came there.

    A log that has not grown is not looked at, nor one of a rank whose network is known, nor what is beyond
    the first `READ_LIMIT` bytes.

    Args:
        writer: of the run's record and live view.
        targets: the run's nodes.
        whole: every rank's log is followed; else those that somebody watches, and the first of each node
            whose ranks write into the record themselves.
    """

    def __init__(self, writer: RunWriter, targets: Targets, *, whole: bool) -> None:
        self._writer = writer
        self._live = writer.live
        self._targets = targets
        self._whole = whole
        self._readers: dict[_Log, TransportReader] = {}
        self._told: dict[int, tuple[Transport, ...]] = {}
        self._settled: set[int] = set()
        self._looking = asyncio.Lock()
        for rank in self._live.snapshot().ranks:
            self._told[rank.rank] = rank.transports
            if any(transport.connected for transport in rank.transports):
                self._settled.add(rank.rank)

    async def run(self) -> None:
        """Look again and again; cancel it at the run's end."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> bool:
        """Look once at what has grown, and record what is new; False: there was nothing to read."""
        async with self._looking:
            due = [
                (rank, stream) for rank in self._ranks() for stream in _STREAMS if self._grown(rank, stream)
            ]
            if not due:
                return False
            read = await asyncio.to_thread(self._read, due)
            for rank in dict.fromkeys(rank for rank, _ in due):
                # A record that can't be written is told of by those who write the logs there.
                with contextlib.suppress(OSError):
                    self._tell(rank)
            return read > 0

    async def finish(self) -> None:
        """Read what is left: the run has ended, and its logs are here."""
        while await self.look():
            pass

    def _ranks(self) -> Iterable[int]:
        if self._whole:
            wanted = set(range(self._targets.world_size))
        else:
            wanted = set(self._live.watched or ())
            wanted |= {node.ranks[0] for node in self._targets.nodes if node.shared and node.ranks}
        return sorted(wanted - self._settled)

    def _grown(self, rank: int, stream: str) -> bool:
        reader = self._readers.get((rank, stream))
        if reader is not None and reader.settled:
            return False
        return self._live.growth(rank, stream).size > (reader.offset if reader is not None else 0)

    def _read(self, logs: Iterable[_Log]) -> int:
        """Take in the next bytes of each; gives how many there were."""
        count = 0
        for rank, stream in logs:
            reader = self._readers.setdefault((rank, stream), TransportReader())
            path = self._writer.record.log_path(layout.rank_log(rank, stream))
            with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
                data = os.pread(file.fileno(), min(CHUNK, READ_LIMIT - reader.offset), reader.offset)
                reader.feed(data)
                count += len(data)
        return count

    def _tell(self, rank: int) -> None:
        readers = [self._readers[rank, stream] for stream in _STREAMS if (rank, stream) in self._readers]
        found = tuple(transport for reader in readers for transport in reader.found())
        done = [reader.settled for reader in readers]
        if done == [True, True] or any(reader.settled and reader.found() for reader in readers):
            self._settled.add(rank)
        if not found or found == self._told.get(rank):
            return
        self._told[rank] = found
        self._writer.own_event("transport_found", rank=rank, transports=[each.to_json() for each in found])
        snapshot = self._live.snapshot()
        slow = unused(found, snapshot.fabric)
        if slow is not None and snapshot.fabric is not None and not snapshot.fabric_unused:
            why = f" ({slow.reasons[0].rstrip('.')})" if slow.reasons else ""
            used = f"{slow.library} of rank {rank} uses {slow.words}"
            message = f"{used}; the nodes' {snapshot.fabric.words} is not used{why}"
            self._writer.own_event("fabric_unused", rank=rank, message=message, reasons=list(slow.reasons))
