"""Where a log view's lines come from: a whole file, or the lines of it that a filter keeps."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from typing import Final, Protocol

from rankdeck_runs.logs import Line, LogFile
from rankdeck_runs.sanitise import plain
from rankdeck_tui.logs.newlines import NewlineCount
from rankdeck_tui.logs.pattern import Pattern

BATCH: Final = 2_000
"""Lines looked at between two looks at `close`: about 5 ms of work, so keys stay quick."""


class LineSource(Protocol):
    """Lines addressed by numbers that grow: a file's by byte offset."""

    @property
    def size(self) -> int:
        """The address beyond the last line: bytes of a file."""

    @property
    def version(self) -> int:
        """A number that changes when there are other lines than before."""

    @property
    def pattern(self) -> Pattern | None:
        """What the lines are filtered by."""

    @property
    def progress(self) -> tuple[int, float]:
        """Of a filter: how many lines it keeps so far, and how much of all it has looked at, 0 to 1."""

    def share_before(self, offset: int) -> float:
        """How much comes before an address, 0 to 1."""

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that begin at `offset` or later."""

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that end at `offset` or before, in order."""

    def close(self) -> None:
        """End its thread, if it has one."""


class Behind(Protocol):
    """Counts the lines that come after a place."""

    @property
    def lines(self) -> int:
        """Counted so far."""

    @property
    def complete(self) -> bool:
        """False while some are still to be counted."""

    def start(self, offset: int) -> None:
        """Count from here."""

    def tick(self) -> bool:
        """Count what came since; True if there was something."""


class Log(Protocol):
    """What a view shows: one file, or the lines of many."""

    @property
    def begin(self) -> float | None:
        """Unix seconds from which on there are lines, where older ones are left out; None: there are all."""

    def source(self, pattern: Pattern | None) -> LineSource:
        """Its lines, or those that a pattern keeps."""

    def behind(self) -> Behind:
        """A count of lines."""

    def close(self) -> None:
        """End its threads."""


class FileLog(LogFile):
    """One log file, all of it."""

    begin: float | None = None

    def source(self, pattern: Pattern | None) -> LineSource:
        """Its lines, or those that a pattern keeps."""
        return WholeFile(self) if pattern is None else Filtered(self, pattern)

    def behind(self) -> Behind:
        """A count of lines."""
        return NewlineCount(self.path)

    def close(self) -> None:
        """It has no threads."""


class WholeFile:
    """All lines of a file."""

    pattern: Pattern | None = None

    def __init__(self, file: LogFile) -> None:
        self.file = file

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    @property
    def version(self) -> int:
        """The size: log files only grow."""
        return self.file.size

    @property
    def progress(self) -> tuple[int, float]:
        """There is no filter."""
        return 0, 1.0

    def share_before(self, offset: int) -> float:
        """How much of the file's bytes comes before an offset, 0 to 1."""
        return _share(offset, self.file.size)

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that begin at `offset` or later."""
        return self.file.after(offset, count)

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that end at `offset` or before, in order."""
        return self.file.before(offset, count)

    def close(self) -> None:
        """It has no thread."""


def _share(offset: int, size: int) -> float:
    return min(1.0, offset / size) if size else 1.0


class Filtered:
    """The lines of a file that a pattern keeps, found by a thread of its own.

    The thread goes from the end towards the beginning, so the newest lines are there first, and takes what
    the file grows by in between. Eight bytes are held for each line kept.
    """

    def __init__(self, file: LogFile, pattern: Pattern) -> None:
        self.file = file
        self.pattern: Pattern | None = pattern
        self._keeps = pattern.keeps
        start = file.before(file.size, 1)
        # A last line without its end may still grow, so it counts among what is to come.
        origin = start[0].offset if start else 0
        self._older = array("Q")
        """Offsets found going backwards: descending."""
        self._newer = array("Q")
        """Offsets found going forwards: ascending."""
        self._origin = origin
        self._back = origin
        self._front = origin
        self._open_line: int | None = None
        """A kept last line that has no end yet."""
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._scan, name="log filter", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    @property
    def version(self) -> int:
        """How many lines are kept so far."""
        self._wake.set()
        return self.found

    @property
    def found(self) -> int:
        """How many lines are kept so far."""
        return len(self._older) + len(self._newer) + (self._open_line is not None)

    @property
    def share(self) -> float:
        """How much of what was there at first was looked at, 0 to 1."""
        return 1.0 - self._back / self._origin if self._origin else 1.0

    @property
    def progress(self) -> tuple[int, float]:
        """How many lines are kept so far, and how much was looked at."""
        return self.found, self.share

    def share_before(self, offset: int) -> float:
        """How much of the file's bytes comes before an offset, 0 to 1."""
        return _share(offset, self.file.size)

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` kept lines that begin at `offset` or later."""
        offsets = _Joined(self._older, self._newer, self._open_line)
        first = bisect_left(offsets, offset)
        return self._read(offsets, first, first + count)

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` kept lines that begin before `offset`, in order."""
        offsets = _Joined(self._older, self._newer, self._open_line)
        end = bisect_left(offsets, offset)
        return self._read(offsets, end - count, end)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()

    def _read(self, offsets: _Joined, first: int, end: int) -> list[Line]:
        lines: list[Line] = []
        for index in range(max(first, 0), min(end, len(offsets))):
            lines += self.file.after(offsets[index], 1)
        return lines

    def _scan(self) -> None:
        while not self._closed.is_set():
            went_on = self._look_forwards()
            went_on = self._look_backwards() or went_on
            if not went_on:
                self._wake.wait()
                self._wake.clear()

    def _look_forwards(self) -> bool:
        size = self.file.size
        if self._front >= size:
            return False
        before = self._front
        self._open_line = None
        for line in self.file.after(self._front, BATCH):
            kept = self._keeps(plain(line.data))
            if line.end >= size and line.end - line.offset == len(line.data):
                self._open_line = line.offset if kept else None
                return self._front > before
            if kept:
                self._newer.append(line.offset)
            self._front = line.end
        return self._front > before

    def _look_backwards(self) -> bool:
        if self._back <= 0:
            return False
        lines = self.file.before(self._back, BATCH)
        for line in reversed(lines):
            if self._keeps(plain(line.data)):
                self._older.append(line.offset)
        self._back = lines[0].offset if lines else 0
        return True


class _Joined:
    """Both arrays as one ascending sequence, as they were when it was made (they only ever grow)."""

    def __init__(self, older: array[int], newer: array[int], open_line: int | None) -> None:
        self._older, self._newer, self._open = older, newer, open_line
        self._split = len(older)
        self._known = self._split + len(newer)

    def __len__(self) -> int:
        return self._known + (self._open is not None)

    def __getitem__(self, index: int) -> int:
        if index < self._split:
            return self._older[self._split - 1 - index]
        if index < self._known:
            return self._newer[index - self._split]
        if self._open is not None and index == self._known:
            return self._open
        raise IndexError(index)


def find(
    source: LineSource, pattern: Pattern, offset: int, *, backwards: bool, give_up: threading.Event
) -> Line | None:
    """The next line with a hit.

    Args:
        source: the lines.
        pattern: what is looked for.
        offset: forwards: lines that begin here or later; backwards: lines that end here or before.
        backwards: go towards the beginning.
        give_up: set by somebody else to end the search early.

    Returns:
        The line; None if there is none or the search was given up.
    """
    while not give_up.is_set():
        lines = source.before(offset, BATCH) if backwards else source.after(offset, BATCH)
        if not lines:
            return None
        for line in reversed(lines) if backwards else lines:
            if pattern.hits(plain(line.data)):
                return line
        offset = lines[0].offset if backwards else lines[-1].end
    return None
