"""Which lines of a log belong together: a traceback is one thing, not forty. Pure."""

from __future__ import annotations

import re
from enum import Enum, auto

from rankdeck_runs.alike import without_prefix
from rankdeck_runs.diagnosis import is_exception, is_traceback
from rankdeck_runs.sanitise import plain

MOST_LINES = 400
"""A block is cut here: nothing that only looks like a traceback may hold back the rest."""

_CHAINED = re.compile(r"(?:During handling of the above exception|The above exception was the direct cause)")
"""Between chained tracebacks (docs.python.org/3/library/exceptions.html, "Exception context")."""


class _At(Enum):
    NOWHERE = auto()
    FRAMES = auto()
    ENDED = auto()
    """Behind the exception: another traceback may be chained to it."""


class Tracebacks:
    """Goes through one log's lines and tells which of them go on with the traceback before them."""

    def __init__(self) -> None:
        self._at = _At.NOWHERE
        self._lines = 0

    @property
    def open(self) -> bool:
        """Whether the next line may belong to the last one."""
        return self._at is not _At.NOWHERE

    def joins(self, data: bytes) -> bool:
        """Whether this line, the next one of the log, belongs to the line before it.

        Args:
            data: the line's bytes.
        """
        if self._at is _At.NOWHERE and b"Traceback (most" not in data:
            return False
        text = without_prefix(plain(data))
        joins = self._at is not _At.NOWHERE and self._goes_on(text) and self._lines < MOST_LINES
        if joins:
            self._lines += 1
        else:
            self._lines = 1
            self._at = _At.FRAMES if is_traceback(text) else _At.NOWHERE
        return joins

    def _goes_on(self, text: str) -> bool:
        if not text.strip():
            return True
        if self._at is _At.ENDED:
            if is_traceback(text):
                self._at = _At.FRAMES
                return True
            return _CHAINED.match(text) is not None
        if text[0].isspace():
            return True
        if is_exception(text):
            self._at = _At.ENDED
            return True
        return False
