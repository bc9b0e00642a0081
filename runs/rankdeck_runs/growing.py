"""Logs of many ranks while they grow, as lines with times: the newest part of them, within bounds."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from rankdeck_runs.logs import LogFile
from rankdeck_runs.time_index import TimeIndex
from rankdeck_runs.timeline import Reading, TimedLine, TimedLog

MOST_BYTES = 128 << 20
"""Of all logs together that are read at first: their ends, from one moment on."""
PATIENCE = 2.0
"""Seconds that bytes wait for their times, which come by another way. A log without an index has none."""
_BATCH = 10_000


class GrowingLogs:
    """Reads logs from a moment on, and then what they grow by.

    Lines come at first in the order of time, later as they arrive: the caller puts them in order.

    Args:
        logs: which ones.
        most: bytes that are read at first; None: `MOST_BYTES`.

    Attributes:
        begin: unix seconds of the moment from which lines are read; None: from the beginning.
    """

    def __init__(self, logs: Sequence[TimedLog], most: int | None = None) -> None:
        self.begin, offsets = _beginning(logs, MOST_BYTES if most is None else most)
        self._readings = [Reading(log, offset) for log, offset in zip(logs, offsets, strict=True)]
        self._at_first: Iterator[TimedLine] | None = heapq.merge(*map(_known, self._readings), key=_when)
        self._since: dict[int, float] = {}
        """Reading -> since when it has had bytes whose time is not known."""

    def more(self, *, ended: bool) -> list[TimedLine]:
        """Lines that were not read yet; empty where there are none for now.

        Args:
            ended: nothing more will be written: what has no line end, or no time, is taken as it is.
        """
        if self._at_first is not None:
            found = list(islice(self._at_first, _BATCH))
            if found:
                return found
            self._at_first = None
        found = []
        for number, reading in enumerate(self._readings):
            size = reading.file.size
            if size <= reading.offset:
                self._since.pop(number, None)
                continue
            reading.index.read_on()
            lines = reading.more(known=not ended, whole=not ended)
            if not lines and size > reading.index.size and self._waited(number):
                lines = reading.more(whole=True)
            if lines:
                self._since.pop(number, None)
                reading.index.forget(reading.offset)
            found += lines
        return found

    def _waited(self, number: int) -> bool:
        return time.monotonic() - self._since.setdefault(number, time.monotonic()) > PATIENCE


def _known(reading: Reading) -> Iterator[TimedLine]:
    while lines := reading.more(known=True, whole=True):
        yield from lines


def _when(line: TimedLine) -> float:
    return float("inf") if line.seconds is None else line.seconds


def _beginning(logs: Sequence[TimedLog], most: int) -> tuple[float | None, list[int]]:
    """The moment from which on all logs are read, and where that is in each."""
    share = most // max(1, len(logs))
    sizes = [LogFile(log.log).size for log in logs]
    if all(size <= share for size in sizes):
        return None, [0] * len(logs)
    begin: float | None = None
    for log, size in zip(logs, sizes, strict=True):
        if size > share and (at := _index(log).at(size - share)) is not None:
            begin = at if begin is None else max(begin, at)
    offsets = []
    for log, size in zip(logs, sizes, strict=True):
        cut = max(0, size - share)
        offset = cut if begin is None else max(cut, min(size, _index(log).size_before(begin)))
        before = LogFile(log.log).before(offset, 1)
        offsets.append(before[0].offset if before else 0)
    return begin, offsets


def _index(log: TimedLog) -> TimeIndex:
    index = TimeIndex(log.index, log.stream, log.skew)
    index.read_on()
    return index
