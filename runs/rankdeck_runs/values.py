"""Reading values out of JSON that others wrote: the wrong type counts as not there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def integer(source: Mapping[str, Any], key: str) -> int | None:
    """The whole number at `key`; None if there is none (a bool is none)."""
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(source: Mapping[str, Any], key: str) -> float | None:
    """The finite number at `key`, or None."""
    value = source.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def text(source: Mapping[str, Any], key: str) -> str:
    """The string at `key`, or the empty one."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def objects(source: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects in the list at `key`; what is no object is left out."""
    value = source.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def integers(source: Mapping[str, Any], key: str) -> list[int]:
    """The whole numbers in the list at `key`."""
    value = source.get(key)
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, int) and not isinstance(item, bool)]


def strings(source: Mapping[str, Any], key: str) -> list[str]:
    """The strings in the list at `key`."""
    value = source.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
