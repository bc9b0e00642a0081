"""Lengths of time as people write them: `60s`, `2m`, `1h`, `30d`, `500ms`, or a number of seconds."""

from __future__ import annotations

import math
import re

ALLOWED = 'a number of seconds, or text such as "60s", "2m", "1h", "30d" or "500ms"'
"""What `parse` takes, for messages."""

_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|h|d|)\s*", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse(value: str | int | float) -> float:
    """A length of time in seconds.

    Args:
        value: a number of seconds, or text of a number and a unit (ms, s, m, h, d; none: seconds).

    Raises:
        ValueError: not a length of time, negative, or not finite. The text says what is allowed.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value} is no length of time: {ALLOWED}")
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        if match is None:
            raise ValueError(f'"{value}" is no length of time: {ALLOWED}')
        return float(match[1]) * _SECONDS[match[2]]
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is no length of time: {ALLOWED}")
    return float(value)
