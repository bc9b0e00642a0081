"""Getting at the log lines that tell a failure's cause, wherever they are."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from pathlib import Path

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import diagnosis, layout
from rankdeck_runs.failures import Failure
from rankdeck_runs.links import Links
from rankdeck_runs.live import LiveRun
from rankdeck_runs.record import Record
from rankdeck_runs.states import Cause, CauseKind
from rankdeck_runs.targets import Target, Targets

TAIL = 64 << 10
"""Bytes of a log's end in which the error is looked for."""
PATIENCE = 1.0
"""Seconds in which a failed rank's last bytes normally come by themselves; then its node is asked."""
READ_TIMEOUT = 5.0
MOST_OTHERS = 4
"""Ranks in whose logs a silent launcher's failure is looked for."""

_Where = tuple[Record, Links, Targets]


async def find_cause(
    failure: Failure, record: Record, live: LiveRun, links: Links, targets: Targets
) -> Cause | None:
    """The failure in its own last words; None if the logs add nothing.

    Args:
        failure: the run's first failure.
        record: where the logs are mirrored.
        live: tells how large they should be.
        links: to read from the node what is not here.
        targets: where the node is.
    """
    where = (record, links, targets)
    target = next((t for t in targets.nodes if t.name == failure.node), None)
    if target is None:
        return None
    source = _source(failure, live)
    if source is None:
        return None
    err, out = [
        await _tail(f"{source}.{stream}", _size(failure.rank, failure.attempt, stream, live), target, *where)
        for stream in ("err", "out")
    ]
    if not err.strip() and not out.strip():
        elsewhere = await _told_elsewhere(failure, live, targets, where)
        if elsewhere is not None:
            return elsewhere
    return diagnosis.explain(failure, err, out)


async def _told_elsewhere(failure: Failure, live: LiveRun, targets: Targets, where: _Where) -> Cause | None:
    """What others say where the failing program is silent: an MPI's messages come out at either end."""
    by_name = {target.name: target for target in targets.nodes}
    for node, rank, name in _others(failure, live):
        if (target := by_name.get(node)) is None:
            continue
        size = None if rank is None else _size(rank, failure.attempt, "err", live)
        cause = diagnosis.told_elsewhere(failure, rank, await _tail(f"{name}.err", size, target, *where))
        if cause is not None:
            return cause
    return None


def _others(failure: Failure, live: LiveRun) -> Iterator[tuple[str, int | None, str]]:
    """Node, rank and name of the logs that may say more: the launchers' for a rank, some ranks' for those."""
    snapshot = live.snapshot()
    if failure.rank is not None:
        for launcher in snapshot.launchers:
            yield launcher.node, None, f"launcher-{launcher.process}"
        return
    spoken = [rank for rank in snapshot.ranks if rank.err_bytes and rank.attempt == failure.attempt]
    for rank in sorted(spoken, key=lambda each: each.ended or math.inf)[:MOST_OTHERS]:
        yield rank.node, rank.rank, layout.log_name(rank.rank, "", rank.attempt).rstrip(".")


def _source(failure: Failure, live: LiveRun) -> str | None:
    """Whose logs tell more: a rank's or a launcher's, as the protocol names them."""
    if failure.kind in (CauseKind.EXIT, CauseKind.SIGNAL) and failure.rank is not None:
        return layout.log_name(failure.rank, "", failure.attempt).rstrip(".")
    if failure.kind in (CauseKind.LAUNCHER, CauseKind.START) and failure.rank is None:
        for launcher in live.snapshot().launchers:
            if launcher.node == failure.node and (launcher.exit_code or launcher.signal):
                return f"launcher-{launcher.process}"
    return None


def _size(number: int | None, attempt: int, stream: str, live: LiveRun) -> int | None:
    rank = next((r for r in live.snapshot().ranks if r.rank == number), None)
    if rank is None or rank.attempt != attempt:
        return None
    return rank.err_bytes if stream == "err" else rank.out_bytes


async def _tail(
    name: str, size: int | None, target: Target, record: Record, links: Links, targets: Targets
) -> bytes:
    file = layout.from_protocol(name, target.node_rank)
    if file is None:
        return b""
    path = record.log_path(file)
    deadline = time.monotonic() + PATIENCE
    # The ranks may write this file themselves: nothing tells when they do.
    while size is not None and _length(path) < size and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    if size is None or _length(path) >= size or target.dir is None or target.shared:
        return _read_tail(path)
    try:
        async with asyncio.timeout(READ_TIMEOUT), links.use(targets.backend, target.node) as connection:
            reply = await connection.request(
                "read", dir=target.dir, name=name, offset=max(size - TAIL, 0), length=TAIL
            )
            return reply.body
    except (RankdeckError, TimeoutError):
        return _read_tail(path)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_tail(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(_length(path) - TAIL, 0))
            return file.read(TAIL)
    except OSError:
        return b""
