"""What a person types to filter or search a log."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression where the text is a valid one, else the text itself.

    Attributes:
        text: as typed, without the leading `!`.
        inverted: True keeps the lines that do not match.
        regex: what is looked for.
        literal: True: the text is no valid expression and is looked for as it stands.
    """

    text: str
    inverted: bool
    regex: re.Pattern[str]
    literal: bool

    @classmethod
    def parse(cls, typed: str, *, invertible: bool = True) -> Pattern | None:
        """Read what was typed. Upper and lower case differ only if the text holds an upper-case letter.

        Args:
            typed: the text; a leading `!` inverts.
            invertible: False takes `!` as part of the text (searching has no inverse).

        Returns:
            The pattern; None for an empty text.
        """
        inverted = invertible and typed.startswith("!")
        text = typed[1:] if inverted else typed
        if not text:
            return None
        flags = 0 if any(c.isupper() for c in text) else re.IGNORECASE
        try:
            return cls(text, inverted, re.compile(text, flags), literal=False)
        except (re.error, OverflowError, RecursionError):
            return cls(text, inverted, re.compile(re.escape(text), flags), literal=True)

    @property
    def typed(self) -> str:
        """The text as it was typed."""
        return ("!" if self.inverted else "") + self.text

    def keeps(self, line: str) -> bool:
        """Whether a filter with this pattern shows the line."""
        return (self.regex.search(line) is None) is self.inverted

    def hits(self, line: str) -> list[tuple[int, int]]:
        """Start and end of each non-empty match in the line (none for an inverted pattern)."""
        if self.inverted:
            return []
        return [match.span() for match in self.regex.finditer(line) if match.end() > match.start()]
