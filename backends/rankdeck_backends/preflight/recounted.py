"""Counters that were read twice, some seconds apart: how much each grew in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankdeck_profiles.readings import Readings, digits

RECOUNTED = "files_again"
"""The name in `syscalls` of the files as they were read the second time: {path: content}."""
_UPTIME = "/proc/uptime"


@dataclass(frozen=True, slots=True)
class Growth:
    """One counter that grew."""

    before: int
    after: int

    @property
    def by(self) -> int:
        """How much."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Recounted:
    """Two readings of the same counters."""

    grown: Mapping[str, Growth]
    """By path; those that stayed, or were cleared in between, are left out."""
    read: frozenset[str]
    """The paths that were readable both times."""
    seconds: float | None
    """Between the readings, by the node's own clock; None: it does not tell."""

    @property
    def span(self) -> str:
        """`within 5.1 s`."""
        return "between two looks" if self.seconds is None else f"within {self.seconds:.1f} s"


def recounted(readings: Readings) -> Recounted | None:
    """What a node's counters did between its two looks; None: there was one look."""
    again = readings.mapping(RECOUNTED)
    if not again:
        return None
    pairs = {
        str(path): (before, after)
        for path, content in again.items()
        if (before := digits(readings.file(str(path)))) is not None
        and (after := digits(content if isinstance(content, str) else None)) is not None
    }
    grown = {path: Growth(*pair) for path, pair in pairs.items() if pair[1] > pair[0]}
    first, second = _seconds(readings.file(_UPTIME)), _seconds(again.get(_UPTIME))
    span = second - first if first is not None and second is not None and second >= first else None
    return Recounted(grown, frozenset(pairs), span)


def _seconds(uptime: object) -> float | None:
    """The first number of /proc/uptime: `351735.47 234388.90`."""
    words = uptime.split() if isinstance(uptime, str) else []
    whole, _, part = words[0].partition(".") if words else ("", "", "")
    seconds, hundredths = digits(whole), digits(part or "0")
    return None if seconds is None or hundredths is None or len(part) > 2 else seconds + hundredths / 100
