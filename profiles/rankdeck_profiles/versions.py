"""Version numbers out of text, to be compared."""

from __future__ import annotations

import re

Version = tuple[int, ...]

_NUMBERS = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})*")


def version(text: str | None) -> Version | None:
    """The first dotted number in a text: `5.15.0-130-generic` is (5, 15, 0); None: there is none."""
    found = _NUMBERS.search(text or "")
    return None if found is None else tuple(int(part) for part in found[0].split("."))
