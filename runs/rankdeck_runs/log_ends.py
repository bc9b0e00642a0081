"""Getting at the ends of logs, wherever they are: in the record, or still on their node."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_runs.judging.words import LogEnd
from rankdeck_runs.links import Links
from rankdeck_runs.record import Record
from rankdeck_runs.targets import Target, Targets

TAIL = 64 << 10
"""Bytes of a log's end in which the error is looked for."""
PATIENCE = 1.0
"""Seconds in which a failed rank's last bytes normally come by themselves; then its node is asked."""
READ_TIMEOUT = 5.0


class LogEnds:
    """Reads the ends of one run's logs.

    Args:
        record: where the logs are mirrored.
        links: to read from a node what is not here.
        targets: where the nodes are.
    """

    def __init__(self, record: Record, links: Links, targets: Targets) -> None:
        self._record = record
        self._links = links
        self._targets = targets
        self._by_name = {target.name: target for target in targets.nodes}

    async def both(
        self, name: str, node: str, sizes: tuple[int | None, int | None], rank: int | None
    ) -> tuple[LogEnd, LogEnd]:
        """The ends of a program's error log and output.

        Args:
            name: the program's logs as the agent names them, without the ending: `3`, `3.2`, `launcher-0`.
            node: the node that it is on.
            sizes: bytes that the two must have, if known: what is missing in the record is asked for.
            rank: which rank it is, if it is one.
        """
        err, out = await asyncio.gather(
            self._one(f"{name}.err", node, sizes[0], rank), self._one(f"{name}.out", node, sizes[1], rank)
        )
        return err, out

    async def _one(self, name: str, node: str, size: int | None, rank: int | None) -> LogEnd:
        stream = name.rpartition(".")[2]
        target = self._by_name.get(node)
        file = layout.from_protocol(name, target.node_rank) if target is not None else None
        if target is None or file is None:
            return LogEnd("", b"", rank=rank, stream=stream)
        path = self._record.log_path(file)
        base, data = await self._read(path, name, size, target)
        return LogEnd(file, data, base, rank, stream)

    async def _read(self, path: Path, name: str, size: int | None, target: Target) -> tuple[int, bytes]:
        deadline = time.monotonic() + PATIENCE
        # The ranks may write this file themselves: nothing tells when they do.
        while size is not None and _length(path) < size and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        if size is None or _length(path) >= size or target.dir is None or target.shared:
            return _read_tail(path)
        try:
            async with (
                asyncio.timeout(READ_TIMEOUT),
                self._links.use(self._targets.backend, target.node) as connection,
            ):
                offset = max(size - TAIL, 0)
                reply = await connection.request(
                    "read", dir=target.dir, name=name, offset=offset, length=TAIL
                )
                return offset, reply.body
        except (RankdeckError, TimeoutError):
            return _read_tail(path)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_tail(path: Path) -> tuple[int, bytes]:
    try:
        with open(path, "rb") as file:
            offset = max(_length(path) - TAIL, 0)
            file.seek(offset)
            return offset, file.read(TAIL)
    except OSError:
        return 0, b""
