"""Reads a log that grows, in bytes, and cuts it into lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 18
"""Bytes read at once: large enough that a fast rank costs few calls, small enough that ranks take turns."""

LONGEST_LINE = 1 << 20
"""A line is cut here. Progress bars and binary output may never write a newline."""


class Tail:
    """What has been added to a file since the last look. The file may not exist yet.

    Attributes:
        offset: bytes read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._rest = b""

    def chunks(self) -> Iterator[bytes]:
        """All bytes that are there and have not been read."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            while chunk := file.read(CHUNK):
                self.offset += len(chunk)
                yield chunk

    def lines(self) -> Iterator[bytes]:
        """The complete lines that are there and have not been read, without their newline."""
        for chunk in self.chunks():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            yield from lines
            while len(self._rest) > LONGEST_LINE:
                yield self._rest[:LONGEST_LINE]
                self._rest = self._rest[LONGEST_LINE:]

    def last_line(self) -> Iterator[bytes]:
        """What came after the last newline, once nothing more will be written: one line or none."""
        if self._rest:
            yield self._rest
            self._rest = b""
