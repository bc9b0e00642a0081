"""Parts of what a node's own calls answered, whatever their shape: recordings are other people's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankdeck_profiles.readings import Readings, finite

Entry = Mapping[str, Any]


def entries(readings: Readings, key: str) -> tuple[Entry, ...]:
    """A call's answer as a list of objects; what is none is left out."""
    found = readings.syscall(key)
    return tuple(each for each in found if isinstance(each, Mapping)) if isinstance(found, list) else ()


def text(entry: Entry, key: str) -> str | None:
    """A part of it that is text; None: there is none."""
    value = entry.get(key)
    return value if isinstance(value, str) else None


def number(entry: Entry, key: str) -> float | None:
    """A part of it that is a number a computer can count with; None: there is none."""
    return finite(entry.get(key))
