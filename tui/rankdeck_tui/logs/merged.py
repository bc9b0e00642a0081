"""The lines of many ranks in the order of time: where each is, not its text; only what is in view is read."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from rankdeck_profiles.matching import short
from rankdeck_runs.growing import GrowingLogs
from rankdeck_runs.logs import Line, LogFile
from rankdeck_runs.sanitise import plain
from rankdeck_runs.timeline import TimedLine, TimedLog
from rankdeck_tui.logs.background import InBackground
from rankdeck_tui.logs.headed import HeadedLine, moment, place
from rankdeck_tui.logs.pattern import Pattern

MOST_LINES: Final = 1_000_000
"""Held at a time, with 19 bytes each; beyond that the oldest go."""
_SLACK: Final = 50_000
_FILTERED_AT_ONCE: Final = 2_000
_UNKNOWN: Final = 1 << 42
"""Stands for a time that is not known: such lines come last."""
_NO, _YES, _UNSEEN = 0, 1, 2
"""What a filter says of a line."""
_WIDEST_PLACE: Final = 14

_Entry = tuple[int, int, int, int]
"""Milliseconds, which log, offset in it, what the filter says. Entries' order is the lines' order."""


class MergedLog(InBackground):
    """The merged lines of some logs, kept in order by a thread of its own. Close it.

    Lines are addressed by a number made of time, log and offset: lines that come late, from a node that was
    slow to tell, stand in their place without moving what is in view.

    Args:
        logs: which ones.
        ended: whether nothing more will be written.
    """

    def __init__(self, logs: Sequence[TimedLog], ended: Callable[[], bool]) -> None:
        super().__init__()
        self._logs = list(logs)
        self._files = [LogFile(log.log) for log in logs]
        self._number = {log: number for number, log in enumerate(logs)}
        self._ended = ended
        widest = max((len(f"{short(log.node)}:{log.rank}") for log in logs), default=0)
        self._place_width = min(widest, _WIDEST_PLACE)
        self._lock = threading.Lock()
        self._times, self._which, self._offsets = array("Q"), array("H"), array("Q")
        self._kept = bytearray()
        self._pattern: Pattern | None = None
        self.version = 0
        self.came = 0
        """Lines that have come in all."""
        self.begin: float | None = None
        """Unix seconds from which on lines are shown; None: from the beginning."""
        self._begin("merged logs")

    # What a view asks.

    def source(self, pattern: Pattern | None) -> MergedLines:
        """All lines, or those that a pattern keeps."""
        with self._lock:
            self._pattern = pattern
            self._kept = bytearray([_UNSEEN]) * len(self._times)
            self.version += 1
        self._wake.set()
        return MergedLines(self, pattern)

    def behind(self) -> CameSince:
        """Counts lines that come."""
        return CameSince(self)

    @property
    def end(self) -> int:
        """Beyond the last line."""
        with self._lock:
            return self._address(len(self._times) - 1) + 1 if self._times else 0

    def share_before(self, address: int) -> float:
        """How much of the lines comes before an address, 0 to 1."""
        with self._lock:
            return self._find(address) / len(self._times) if self._times else 1.0

    def progress(self) -> tuple[int, float]:
        """Of a filter: how many lines it keeps so far, and how much it has looked at, 0 to 1."""
        with self._lock:
            unseen = self._kept.count(_UNSEEN)
            return self._kept.count(_YES), 1.0 - unseen / len(self._kept) if self._kept else 1.0

    def after(self, address: int, count: int) -> list[Line]:
        """Up to `count` lines at an address or later."""
        with self._lock:
            first = self._find(address)
            if self._pattern is None:
                chosen = list(range(first, min(first + count, len(self._times))))
            else:
                chosen = []
                while len(chosen) < count and (first := self._kept.find(_YES, first)) >= 0:
                    chosen.append(first)
                    first += 1
            found = [self._entry(index) for index in chosen]
        return self._read(found)

    def before(self, address: int, count: int) -> list[Line]:
        """Up to `count` lines before an address, in order."""
        with self._lock:
            end = self._find(address)
            if self._pattern is None:
                chosen = list(range(max(0, end - count), end))
            else:
                chosen = []
                while len(chosen) < count and (end := self._kept.rfind(_YES, 0, end)) >= 0:
                    chosen.append(end)
                chosen.reverse()
            found = [self._entry(index) for index in chosen]
        return self._read(found)

    # Inside.

    def _entry(self, index: int) -> _Entry:
        return self._times[index], self._which[index], self._offsets[index], self._kept[index]

    def _address(self, index: int) -> int:
        return _address(self._entry(index))

    def _find(self, address: int) -> int:
        return bisect_left(range(len(self._times)), address, key=self._address)

    def _read(self, entries: Sequence[_Entry]) -> list[Line]:
        """The entries' lines; those of one log that follow each other are read at once."""
        lines: list[Line] = []
        at = 0
        while at < len(entries):
            which, offset = entries[at][1], entries[at][2]
            run = at + 1
            while run < len(entries) and entries[run][1] == which:
                run += 1
            found = {line.offset: line for line in self._files[which].after(offset, run - at)}
            for entry in entries[at:run]:
                # With a filter there may be lines between them.
                line = found.get(entry[2]) or next(iter(self._files[which].after(entry[2], 1)), None)
                if line is not None:
                    lines.append(self._headed(entry, line))
            at = run
        return lines

    def _headed(self, entry: _Entry, line: Line) -> HeadedLine:
        log, address = self._logs[entry[1]], _address(entry)
        seconds = None if entry[0] == _UNKNOWN else entry[0] / 1000
        head = f"{moment(seconds)} {place(log.node, log.rank, self._place_width)}"
        return HeadedLine(address, address + 1, line.data, head, log.rank, log.stream)

    # The thread.

    def _work(self) -> None:
        logs = GrowingLogs(self._logs)
        self.begin = logs.begin
        while not self._closed.is_set():
            lines = logs.more(ended=self._ended())
            if lines:
                self._take(lines)
            if not self._filter() and not lines:
                self._wake.wait()
                self._wake.clear()

    def _take(self, lines: Sequence[TimedLine]) -> None:
        came = sorted(
            (_milliseconds(found.seconds), self._number[found.log], found.line.offset, _UNSEEN)
            for found in lines
        )
        with self._lock:
            first = self._find(_address(came[0]))
            if first < len(self._times):
                came = sorted([*(self._entry(index) for index in range(first, len(self._times))), *came])
            del self._times[first:], self._which[first:], self._offsets[first:], self._kept[first:]
            for time, which, offset, kept in came:
                self._times.append(time)
                self._which.append(which)
                self._offsets.append(offset)
                self._kept.append(kept)
            if len(self._times) > MOST_LINES + _SLACK:
                old = len(self._times) - MOST_LINES
                del self._times[:old], self._which[:old], self._offsets[:old], self._kept[:old]
                self.begin = self._times[0] / 1000
            self.came += len(lines)
            self.version += 1

    def _filter(self) -> bool:
        """Look at some lines, the newest first; False if all were seen."""
        with self._lock:
            pattern = self._pattern
            end = self._kept.rfind(_UNSEEN) + 1
            if pattern is None or not end:
                return False
            first = max(self._kept.rfind(_NO, 0, end), self._kept.rfind(_YES, 0, end)) + 1
            first = max(first, end - _FILTERED_AT_ONCE)
            entries = [self._entry(index) for index in range(first, end)]
        kept = {line.offset for line in self._read(entries) if pattern.keeps(plain(line.data))}
        with self._lock:
            if pattern is self._pattern:
                self._kept[first:end] = bytes(_YES if _address(e) in kept else _NO for e in entries)
                self.version += 1
        return True


class MergedLines:
    """What a view shows of a merged log; one at a time."""

    def __init__(self, log: MergedLog, pattern: Pattern | None) -> None:
        self._log = log
        self.pattern = pattern

    @property
    def size(self) -> int:
        """Beyond the last line."""
        return self._log.end

    @property
    def version(self) -> int:
        """Changes when there are other lines than before."""
        self._log.look()
        return self._log.version

    @property
    def progress(self) -> tuple[int, float]:
        """Lines kept so far, and how much was looked at."""
        return self._log.progress()

    def share_before(self, offset: int) -> float:
        """How much comes before an offset, 0 to 1."""
        return self._log.share_before(offset)

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines at `offset` or later."""
        return self._log.after(offset, count)

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines before `offset`, in order."""
        return self._log.before(offset, count)

    def close(self) -> None:
        """Nothing of its own to end."""


class CameSince:
    """Counts the lines that have come since a moment."""

    complete = True

    def __init__(self, log: MergedLog) -> None:
        self._log = log
        self._from = 0
        self._told = 0

    def start(self, offset: int) -> None:
        """Count from now on."""
        self._from = self._told = self._log.came

    def tick(self) -> bool:
        """Whether more have come since the last look."""
        before, self._told = self._told, self._log.came
        return self._told != before

    @property
    def lines(self) -> int:
        """How many have come."""
        return self._told - self._from


def _milliseconds(seconds: float | None) -> int:
    return _UNKNOWN if seconds is None else max(0, min(int(seconds * 1000), _UNKNOWN - 1))


def _address(entry: _Entry) -> int:
    return (entry[0] << 64) | (entry[1] << 48) | entry[2]
