"""The order in which people count: mlx5_2 before mlx5_10."""

from __future__ import annotations

import re

_PARTS = re.compile(r"([0-9]{1,18})")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort names by: numbers in them by value."""
    return tuple(
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in _PARTS.split(name) if part
    )
