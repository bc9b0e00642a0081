"""Two quiet lines that say more about what the cursor is on."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Parts
from rankdeck_tui.widgets.painted import Painted


class Detail(Painted):
    """A few lines of parts, without a border."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: tuple[Parts, ...] = ()

    def show(self, lines: Sequence[Parts]) -> None:
        """Show these lines; repaints only if they differ."""
        new = tuple(tuple(parts) for parts in lines)
        if new != self.lines:
            self.lines = new
            self.repaint()

    def paint(self, width: int, height: int) -> list[Strip]:
        """The lines."""
        ink = self.look.ink
        ellipsis = self.look.glyphs.ellipsis
        return [
            draw.line([(" ", ink.text), *parts], width, ink.text, ellipsis=ellipsis) for parts in self.lines
        ]
