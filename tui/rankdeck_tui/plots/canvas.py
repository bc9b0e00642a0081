"""Dots in character cells: eight to a cell in braille, one where the terminal has ASCII alone. Pure."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot by row and column, U+2800 and up (Unicode 16, chapter 21.1)."""


class Canvas:
    """Layers of dots; in a cell, the layer that was drawn last is seen.

    Args:
        width, height: in cells.
        fine: braille; False: ASCII.
    """

    def __init__(self, width: int, height: int, *, fine: bool) -> None:
        self.across, self.down = (2, 4) if fine else (1, 1)
        self._fine = fine
        self._width, self._height = width, height
        self._cells: list[list[tuple[int, str, Style] | None]] = [[None] * width for _ in range(height)]
        self._layer = 0
        self._layers: list[list[int]] = [[-1] * width for _ in range(height)]

    @property
    def columns(self) -> int:
        """Dots from left to right."""
        return self._width * self.across

    @property
    def rows(self) -> int:
        """Dots from top to bottom."""
        return self._height * self.down

    def layer(self) -> None:
        """What is drawn from here on stands before what was drawn so far."""
        self._layer += 1

    def dot(self, x: int, y: int, letter: str, style: Style) -> None:
        """One dot; y from the top. `letter` stands for it in ASCII."""
        if not (0 <= x < self.columns and 0 <= y < self.rows):
            return
        row, column = y // self.down, x // self.across
        cell = self._cells[row][column] if self._layers[row][column] == self._layer else None
        bits = cell[0] if cell else 0
        self._cells[row][column] = (bits | _BRAILLE[y % self.down][x % self.across], letter, style)
        self._layers[row][column] = self._layer

    def strips(self, fill: Style) -> list[Strip]:
        """The picture."""
        return [
            Strip(
                [
                    Segment(" ", fill) if cell is None else Segment(self._character(cell), cell[2])
                    for cell in row
                ],
                self._width,
            )
            for row in self._cells
        ]

    def _character(self, cell: tuple[int, str, Style]) -> str:
        return chr(0x2800 + cell[0]) if self._fine else cell[1]
