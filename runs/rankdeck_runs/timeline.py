"""Lines of many logs in the order of time, by the side indexes that nodes keep of their logs' growth."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankdeck_runs.blocks import Tracebacks
from rankdeck_runs.logs import LONGEST_LINE, Line, LogFile
from rankdeck_runs.time_index import TimeIndex

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
    open: bool = False
    """Whether its log's next line may go on with it."""


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
        self.file = LogFile(log.log)
        self.index = TimeIndex(log.index, log.stream, log.skew)
        self.index.read_on()
        self._tracebacks = Tracebacks()
        self._began: float | None = None
        """When the traceback began that is being read."""

    def more(self, *, known: bool = False, whole: bool = False) -> list[TimedLine]:
        """The next lines, those of a traceback with the time of its first one; empty at the end.

        Args:
            known: leave for later what came after the index's last entry.
            whole: leave for later what has no line end yet.
        """
        found: list[TimedLine] = []
        for line in self.file.after(self.offset, _LINES_AT_ONCE):
            if (known and line.end > self.index.size) or (whole and _is_open(line)):
                break
            joins = self._tracebacks.joins(line.data)
            if not joins:
                self._began = self.index.at(line.end)
            found.append(TimedLine(self._began, self.log, line, joins, self._tracebacks.open))
            self.offset = line.end
        return found


def _is_open(line: Line) -> bool:
    """Whether it has no line end, and is no piece of a longer one."""
    return line.end - line.offset == len(line.data) < LONGEST_LINE
