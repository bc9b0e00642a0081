"""Lengths of time as people write them: `60s`, `2m`, `1h`, `30d`, `500ms`, or a number of seconds."""

from __future__ import annotations

import math
import re

ALLOWED = 'a number of seconds, or text such as "60s", "2m", "1h", "30d" or "500ms"'
"""What `parse` takes, for messages."""

MAX_SECONDS = 3650 * 86400.0
"""Ten years: more is a slip of the finger, and more than some systems' clocks can wait for."""

_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|h|d|)\s*", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse(value: str | int | float) -> float:
    """A length of time in seconds.

    Args:
        value: a number of seconds, or text of a number and a unit (ms, s, m, h, d; none: seconds).

    Raises:
        ValueError: not a length of time, negative, or more than `MAX_SECONDS`. The text says what is allowed.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value} is no length of time: {ALLOWED}")
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        if match is None:
            raise ValueError(f'"{value}" is no length of time: {ALLOWED}')
        return _limited(float(match[1]) * _SECONDS[match[2]], f'"{value}"')
    if not value >= 0 or value == math.inf:  # nan is neither
        raise ValueError(f"{value} is no length of time: {ALLOWED}")
    return float(_limited(value, str(value)))


def _limited(seconds: float, found: str) -> float:
    if seconds > MAX_SECONDS:
        raise ValueError(f"{found} is more than ten years: {ALLOWED}, up to 3650d")
    return seconds
