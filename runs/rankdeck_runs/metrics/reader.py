"""From a log's bytes to points: lines, frames of progress bars, and which are worth a look. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankdeck_profiles.metric_patterns import STEP, MetricPattern
from rankdeck_runs.metrics import forms
from rankdeck_runs.sanitise import plain

LONGEST = 4 << 10
"""Bytes of a line that are looked at: what a line of 100 MB holds is no report of a step."""
LONGEST_OWN = 1 << 10
"""The same for a profile's own patterns, whose cost may grow with a power of the length."""
FRAME_BYTES = 4 << 10
"""Of a bar's frames, ten of which are written in a second, one in so many bytes is taken, and the last."""
SLOWEST = 0.1
"""Seconds of CPU that a profile's pattern may take for one line before it is no longer used."""

_ENDS = re.compile(rb"\r?\n|\r")


@dataclass(frozen=True, slots=True)
class Point:
    """What one line of one log said."""

    at: int
    """Offset of its first byte."""
    end: int
    """Offset behind its line end."""
    step: int | None
    values: dict[str, float]


class LineReader:
    """Finds points in logs.

    Args:
        patterns: the profile's own; what they name is not looked for in the usual forms.

    Attributes:
        slow: names of the profile's patterns that took too long for a line and are not used any more.
    """

    def __init__(self, patterns: Sequence[MetricPattern] = ()) -> None:
        self._patterns = list(patterns)
        self._signs = (
            () if any(not each.needs for each in patterns) else (*(each.needs.encode() for each in patterns),)
        )
        self._every_line = any(not each.needs for each in patterns)
        self._own = {name for each in patterns for name in each.groups.values()}
        self.slow: list[str] = []

    def points(self, data: bytes, offset: int) -> Iterator[Point]:
        """The points in whole lines.

        Args:
            data: bytes of a log that end with a line or frame of a bar.
            offset: where they begin in the log.
        """
        if not self._may_matter(data, data.lower()):
            return
        start = 0
        frame = -1
        for match in _ENDS.finditer(data):
            end = match.end()
            at, start = start, end
            if end - at < 4 or not self._worth(data[at : min(end, at + LONGEST)]):
                continue
            # A frame of a bar: the next one is written over it.
            if data[end - 1] == 13 and data[end : end + 1] not in (b"\n", b""):
                block = (offset + at) // FRAME_BYTES
                if block == frame:
                    continue
                frame = block
            found = self._look(data[at : min(end, at + LONGEST)])
            if found is not None:
                yield Point(offset + at, offset + end, found.step, found.values)

    def _worth(self, line: bytes) -> bool:
        return self._may_matter(line, line.lower())

    def _may_matter(self, data: bytes, lower: bytes) -> bool:
        """The cheap look: most of what programs write holds no sign of a metric."""
        if self._every_line:
            return True
        return any(sign in lower for sign in forms.SIGNS) or any(sign in data for sign in self._signs)

    def _look(self, line: bytes) -> forms.Found | None:
        text = plain(line.strip(b"\r\n"))
        found = forms.find(text)
        if self._patterns:
            own = self._own_values(text[:LONGEST_OWN])
            if found is not None:
                usual = {name: value for name, value in found.values.items() if name not in self._own}
                own.values = {**own.values, **usual}
                own.step = found.step if own.step is None else own.step
            found = own
        return found if found and found.values else None

    def _own_values(self, text: str) -> forms.Found:
        found = forms.Found()
        for pattern in tuple(self._patterns):
            if pattern.needs not in text:
                continue
            began = time.thread_time()
            match = pattern.regex.search(text)
            if time.thread_time() - began > SLOWEST:
                self._patterns.remove(pattern)
                self.slow.append(pattern.name)
            for group, name in pattern.groups.items() if match else ():
                try:
                    value = forms.number(match[group])  # type: ignore[index]
                except (ValueError, AttributeError):  # no number, or a group that took no part
                    continue
                if name == STEP:
                    found.step = int(value) if abs(value) < 1e15 else None
                else:
                    found.values.setdefault(name, value)
        return found


def whole_lines(data: bytes) -> int:
    """How many of the first bytes are whole lines or frames; 0: none has ended yet."""
    # A carriage return as the last byte may be the first half of a line end.
    end = len(data) - 1 if data.endswith(b"\r") else len(data)
    return max(data.rfind(b"\n", 0, end), data.rfind(b"\r", 0, end)) + 1
