"""The names of what a narrow screen shows one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part
from rankdeck_tui.widgets.painted import Painted


class Tabs(Painted):
    """One row: which tab is shown, and the keys that change it."""

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.names = tuple(names)
        self.index = 0

    def show(self, index: int) -> None:
        """Mark another tab."""
        if index != self.index:
            self.index = index
            self.repaint()

    def paint(self, width: int, height: int) -> list[Strip]:
        """The row."""
        ink = self.look.ink
        parts: list[Part] = [(" [ ] ", ink.key)]
        for index, name in enumerate(self.names):
            if index == self.index:
                parts.append((f" {name} ", ink.over(ink.strong, ink.cursor)))
            else:
                parts.append((f" {name} ", ink.dim))
        return [draw.line(parts, width, ink.text)]
