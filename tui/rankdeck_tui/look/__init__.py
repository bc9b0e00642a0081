"""How things look: inks (styles), glyphs (shapes) and the marks of states. Plain values; no widgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rankdeck_tui.look.glyphs import Glyphs, choose
from rankdeck_tui.look.ink import Ink, in_colour, without_colour


class Look(NamedTuple):
    """The inks and glyphs one app paints with."""

    ink: Ink
    glyphs: Glyphs

    @classmethod
    def for_terminal(cls, environ: Mapping[str, str]) -> Look:
        """What suits the terminal that `environ` tells of (`NO_COLOR`: no-color.org, `TERM`, locale)."""
        ink = without_colour() if environ.get("NO_COLOR") else in_colour()
        return cls(ink, choose(environ))
