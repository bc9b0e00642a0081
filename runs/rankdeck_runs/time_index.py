"""When a rank's log grew: the side index that its node keeps (docs/agent-protocol.md), read as it grows."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from pathlib import Path

_AT_ONCE = 1 << 20
"""Bytes read in one piece."""


class TimeIndex:
    """Times and sizes of one stream's growth, both never falling; torn and garbage rows are left out.

    Args:
        path: the `.times` file; it may not be there yet.
        stream: `out` or `err`.
        skew: seconds that the node's clock was ahead of ours.
    """

    def __init__(self, path: Path, stream: str, skew: float = 0.0) -> None:
        self._path = path
        self._column = 1 if stream == "out" else 2
        self._skew = skew
        self._times = array("d")
        self._sizes = array("Q")
        self._read = 0

    def read_on(self) -> None:
        """Take in the rows that have come since the last look."""
        try:
            if self._path.stat().st_size <= self._read:
                return
            with self._path.open("rb") as file:
                file.seek(self._read)
                while data := file.read(_AT_ONCE):
                    whole = data[: data.rfind(b"\n") + 1]
                    for row in whole.splitlines():
                        self._take(row)
                    self._read += len(whole)
                    if len(data) < _AT_ONCE or not whole:
                        return
                    file.seek(self._read)
        except OSError:
            return

    def _take(self, row: bytes) -> None:
        words = row.split()
        try:
            seconds, size = float(words[0]) - self._skew, int(words[self._column])
            if not self._sizes or size > self._sizes[-1]:
                self._sizes.append(size)
                self._times.append(max(seconds, self._times[-1]) if self._times else seconds)
        except (ValueError, IndexError, OverflowError):
            return

    @property
    def size(self) -> int:
        """Bytes of the log whose times are known."""
        return self._sizes[-1] if self._sizes else 0

    def at(self, offset: int) -> float | None:
        """When the log had grown this far; beyond the index its last time, None without any."""
        if not self._times:
            return None
        return self._times[min(bisect_left(self._sizes, offset), len(self._times) - 1)]

    def size_before(self, seconds: float) -> int:
        """Bytes that had been written before this time."""
        before = bisect_left(self._times, seconds)
        return self._sizes[before - 1] if before else 0

    def forget(self, offset: int) -> None:
        """Drop what is only of use before this offset: a long run's index need not stay in memory."""
        first = min(bisect_left(self._sizes, offset), len(self._sizes) - 1)
        if first > 1000:
            del self._times[:first], self._sizes[:first]
