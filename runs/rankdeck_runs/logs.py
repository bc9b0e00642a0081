"""Reading log files of any size by byte offset: nothing is indexed or held, every read is bounded."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 64 << 10
"""Longer lines are handed out in pieces of this many bytes: no line can fill the memory or the screen."""

_WINDOW = 256 << 10
"""Bytes read at once. A search goes through the file window by window."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, or a piece of one that is too long."""

    offset: int
    """Where it begins in the file."""
    end: int
    """Where the next one begins: its line end is counted in."""
    data: bytes
    """Without the line end (`\\n`, or `\\r\\n`)."""


class LogFile:
    """A log file that may be growing, or not be there yet.

    Lines are addressed by the offset of their first byte. Pieces of overlong lines are cut at multiples of
    `LONGEST_LINE` from the line's beginning where that is near enough to be found, else from where the read
    began. A file that was truncated reads as what it is now: offsets beyond its end have no lines after
    them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """Bytes in the file now; 0 if there is none."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that begin at `offset` or later; offset 0 gives the first ones.

        Args:
            offset: a line's beginning (0, or a `Line.end`); within a line, the rest of it counts as one.
            count: how many at most.

        Returns:
            The lines in order; the last may lack its end while it is still being written.
        """
        lines: list[Line] = []
        position = max(offset, 0)
        with _Reader(self.path) as reader:
            glance = _glance(count)
            data = reader.read(position, glance)
            few, _ = split(data, position, last=len(data) < glance)
            if len(few) >= count or len(data) < glance:
                return few[: max(count, 0)]
            while len(lines) < count:
                data = reader.read(position, _WINDOW)
                found, used = split(data, position, last=len(data) < _WINDOW)
                lines += found
                position += used
                if not used or len(data) < _WINDOW:
                    break
        return lines[:count]

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that end at `offset` or before it; the file's size gives the last ones.

        Args:
            offset: a line's beginning or the file's end; beyond the end counts as the end.
            count: how many at most.

        Returns:
            The lines in order.
        """
        lines: list[Line] = []
        with _Reader(self.path) as reader:
            end = min(offset, reader.size())
            few = _last_lines(
                reader.read(max(end - _glance(count), 0), min(_glance(count), max(end, 0))), end, count
            )
            if few is not None:
                return few
            while end > 0 and len(lines) < count:
                start = reader.line_start(max(end - _WINDOW, 0))
                data = reader.read(start, end - start)
                found, _ = split(data, start, last=True)
                if not found:
                    break
                lines[:0] = found
                end = found[0].offset
        return lines[-count:] if count > 0 else []

    def search(
        self, pattern: re.Pattern[bytes], offset: int, backwards: bool = False, limit: int | None = None
    ) -> Line | None:
        """The next line that the pattern matches in.

        Args:
            pattern: searched for within each line, without its line end.
            offset: forwards: lines that begin here or later; backwards: lines that end here or before.
            backwards: go towards the beginning.
            limit: give up after about this many bytes; None: search it all.

        Returns:
            The line, or None if none was found.
        """
        position = offset if backwards else max(offset, 0)
        looked = 0
        while limit is None or looked < limit:
            lines = self._block_before(position) if backwards else self._block_after(position)
            if not lines:
                return None
            for line in reversed(lines) if backwards else lines:
                if pattern.search(line.data):
                    return line
            looked += lines[-1].end - lines[0].offset
            position = lines[0].offset if backwards else lines[-1].end
        return None

    def _block_after(self, position: int) -> list[Line]:
        with _Reader(self.path) as reader:
            data = reader.read(position, _WINDOW)
            return split(data, position, last=len(data) < _WINDOW)[0]

    def _block_before(self, position: int) -> list[Line]:
        with _Reader(self.path) as reader:
            end = min(position, reader.size())
            if end <= 0:
                return []
            start = reader.line_start(max(end - _WINDOW, 0))
            return split(reader.read(start, end - start), start, last=True)[0]


def _glance(count: int) -> int:
    """Bytes that probably hold `count` lines: panes ask for few lines, many times a second."""
    return min(4096 + max(count, 0) * 256, LONGEST_LINE)


def _last_lines(data: bytes, end: int, count: int) -> list[Line] | None:
    """The last `count` lines of bytes that end at `end`; None if they do not hold that many whole ones."""
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(count):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return None
    return split(data[position + 1 :], end - len(data) + position + 1, last=True)[0] if count > 0 else []


def split(data: bytes, offset: int, *, last: bool) -> tuple[list[Line], int]:
    """Bytes of a file as lines.

    Args:
        data: bytes that begin at a line's beginning.
        offset: where they begin in the file.
        last: nothing follows them yet: what has no line end is a line, too.

    Returns:
        The lines, and how many of the bytes they cover.
    """
    lines: list[Line] = []
    start, size = 0, len(data)
    while start < size:
        newline = data.find(b"\n", start, start + LONGEST_LINE + 1)
        if newline >= 0:
            end, stop = newline + 1, newline
            if stop > start and data[stop - 1] == 0x0D:
                stop -= 1
        elif size - start > LONGEST_LINE:
            end = stop = start + LONGEST_LINE
        elif last:
            end = stop = size
        else:
            break
        lines.append(Line(offset + start, offset + end, data[start:stop]))
        start = end
    return lines, start


class _Reader:
    """One open file, or none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def __enter__(self) -> _Reader:
        try:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._handle = -1
        return self

    def __exit__(self, *exc: object) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def size(self) -> int:
        return os.fstat(self._handle).st_size if self._handle >= 0 else 0

    def read(self, offset: int, length: int) -> bytes:
        if self._handle < 0:
            return b""
        try:
            return os.pread(self._handle, length, offset)
        except OSError:
            return b""

    def line_start(self, offset: int) -> int:
        """The first line's beginning at or after `offset`; `offset` if none is within a line's length."""
        if offset == 0:
            return 0
        data = self.read(offset - 1, LONGEST_LINE + 1)
        newline = data.find(b"\n")
        return offset + newline if newline >= 0 else offset
