"""Lines of many logs in the order of time, by the side indexes that nodes keep of their logs' growth."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line, and when it had been written."""

    seconds: float | None
    """Unix seconds by our clock, at most a quarter of a second late while the log grew; None: not known."""
    log: TimedLog
    line: Line


def merged(logs: Iterable[TimedLog]) -> Iterator[TimedLine]:
    """All lines, the oldest first.

    Lines of one log keep their order, whatever its node's clock did. Those that came after the index's last
    entry go with the line before them; a log without any index comes last.
    """
    timed = [_lines(log) for log in logs]
    return heapq.merge(*timed, key=_when)


def _when(found: TimedLine) -> float:
    return float("inf") if found.seconds is None else found.seconds


def _lines(log: TimedLog) -> Iterator[TimedLine]:
    times, sizes = _index(log)
    file, offset = LogFile(log.log), 0
    while lines := file.after(offset, _LINES_AT_ONCE):
        for line in lines:
            at = min(bisect_left(sizes, line.end), len(times) - 1)
            yield TimedLine(times[at] if times else None, log, line)
        offset = lines[-1].end


def _index(log: TimedLog) -> tuple[list[float], list[int]]:
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
