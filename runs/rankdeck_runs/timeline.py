"""Lines of many logs in the order of time, by the side indexes that nodes keep of their logs' growth."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankdeck_runs.blocks import Tracebacks
from rankdeck_runs.logs import Line, LogFile

_LINES_AT_ONCE = 500
"""Read of one log at a time: thousands of logs must not fill the memory, nor be open together."""


@dataclass(frozen=True, slots=True)
class TimedLog:
    """A rank's log and what tells when it grew."""

    log: Path
    index: Path
    """Its `.times` (docs/agent-protocol.md): lines of unix seconds, size of stdout, size of stderr."""
    stream: str
    """`out` or `err`."""
    skew: float = 0.0
    """Seconds that its node's clock was ahead of ours."""
    rank: int = 0
    node: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line, and when it had been written."""

    seconds: float | None
    """Unix seconds by our clock, at most a quarter of a second late while the log grew; None: not known."""
    log: TimedLog
    line: Line
    joins: bool = False
    """Whether it goes on with a traceback that its log's line before it belongs to, and has its time."""


def merged(logs: Iterable[TimedLog]) -> Iterator[TimedLine]:
    """All lines, the oldest first; no other log's line stands within a traceback.

    Lines of one log keep their order, whatever its node's clock did. Those that came after the index's last
    entry go with the line before them; a log without any index comes last.
    """
    timed = [_lines(log) for log in logs]
    return heapq.merge(*timed, key=_when)


def _when(found: TimedLine) -> float:
    return float("inf") if found.seconds is None else found.seconds


def _lines(log: TimedLog) -> Iterator[TimedLine]:
    reading = Reading(log)
    while lines := reading.more():
        yield from lines


class Reading:
    """One log, read on from where the last look ended.

    Args:
        log: which one.
        offset: a line's beginning.
    """

    def __init__(self, log: TimedLog, offset: int = 0) -> None:
        self.log = log
        self.offset = offset
        """What was read so far ends here."""
        self._file = LogFile(log.log)
        self._times, self._sizes = read_index(log)
        self._tracebacks = Tracebacks()
        self._began: float | None = None
        """When the traceback began that is being read."""

    def more(self) -> list[TimedLine]:
        """The next lines, those of a traceback with the time of its first one; empty at the end."""
        found: list[TimedLine] = []
        for line in self._file.after(self.offset, _LINES_AT_ONCE):
            joins = self._tracebacks.joins(line.data)
            if not joins:
                at = min(bisect_left(self._sizes, line.end), len(self._times) - 1)
                self._began = self._times[at] if self._times else None
            found.append(TimedLine(self._began, self.log, line, joins))
            self.offset = line.end
        return found


def read_index(log: TimedLog) -> tuple[list[float], list[int]]:
    """Times and sizes, both never falling; torn and garbage lines are left out."""
    times: list[float] = []
    sizes: list[int] = []
    column = 1 if log.stream == "out" else 2
    try:
        data = log.index.read_bytes()
    except OSError:
        return times, sizes
    for row in data.splitlines():
        words = row.split()
        try:
            seconds, size = float(words[0]) - log.skew, int(words[column])
        except (ValueError, IndexError):
            continue
        if not sizes or size > sizes[-1]:
            times.append(max(seconds, times[-1]) if times else seconds)
            sizes.append(size)
    return times, sizes
