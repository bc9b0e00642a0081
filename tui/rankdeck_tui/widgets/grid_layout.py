"""Where each rank's cell stands in the grid. Pure arithmetic, so that drawing, keys and mouse agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CELLS: Final = (3, 2, 1)
"""Widths of a cell, roomiest first: shape, letter and a gap; shape and a gap; the shape alone."""
GAP: Final = 2
"""Cells between two nodes on one row."""
LABEL_LIMIT: Final = 20
"""Node names longer than this are cut."""


@dataclass(frozen=True, slots=True)
class GridLayout:
    """A grid of blocks, one a node: a label, then its ranks' cells in order."""

    ranks: tuple[tuple[int, ...], ...]
    """Each node's ranks, by node rank."""
    cell: int
    """Cells of one rank."""
    label: int
    """Cells of a node's name and the blank after it."""
    per_row: int
    """Ranks beside each other in one block."""
    across: int
    """Blocks beside each other."""
    block_rows: int
    """Rows of one block."""

    @property
    def rows(self) -> int:
        """Rows of the whole grid."""
        return -(-len(self.ranks) // self.across) * self.block_rows

    @property
    def block_width(self) -> int:
        """Cells of one block."""
        return self.label + self.per_row * self.cell

    def place(self, rank: int) -> tuple[int, int] | None:
        """Column and row of a rank's cell; None: no such rank."""
        for index, ranks in enumerate(self.ranks):
            if ranks and ranks[0] <= rank <= ranks[-1] and rank in ranks:
                position = ranks.index(rank)
                x = (index % self.across) * (self.block_width + GAP) + self.label
                y = (index // self.across) * self.block_rows + position // self.per_row
                return x + position % self.per_row * self.cell, y
        return None

    def at(self, x: int, y: int) -> int | None:
        """The rank whose cell is at this column and row; None: there is none."""
        column, inside = divmod(x, self.block_width + GAP)
        if x < 0 or y < 0 or column >= self.across or inside < self.label or inside >= self.block_width:
            return None
        block = y // self.block_rows * self.across + column
        position = y % self.block_rows * self.per_row + (inside - self.label) // self.cell
        if block >= len(self.ranks) or position >= len(self.ranks[block]):
            return None
        return self.ranks[block][position]

    def row_of_blocks(self, y: int) -> list[tuple[int, tuple[int, ...]]]:
        """The node indices on row `y`, each with the ranks it shows there (none: below its last row)."""
        start = y // self.block_rows * self.across
        first = y % self.block_rows * self.per_row
        return [
            (index, self.ranks[index][first : first + self.per_row])
            for index in range(start, min(start + self.across, len(self.ranks)))
        ]


def lay_out(ranks: Sequence[Sequence[int]], names: Sequence[str], width: int, height: int) -> GridLayout:
    """Choose the roomiest layout that shows all ranks at once; where none does, the densest (it scrolls).

    Args:
        ranks: each node's ranks, by node rank.
        names: the nodes' names.
        width: cells of the pane.
        height: rows of the pane.
    """
    most = max((len(entry) for entry in ranks), default=1) or 1
    label = min(max((len(name) for name in names), default=0), LABEL_LIMIT, max(4, width // 2)) + 1
    blocks = tuple(tuple(entry) for entry in ranks)
    layout = GridLayout(blocks, 1, label, most, 1, 1)
    for cell in CELLS:
        per_row = max(1, min(most, (width - label) // cell))
        across = max(1, (width + GAP) // (label + per_row * cell + GAP))
        layout = GridLayout(blocks, cell, label, per_row, across, -(-most // per_row))
        if layout.rows <= height:
            # One node a row reads best: side by side only as far as needed.
            while layout.across > 1:
                fewer = GridLayout(blocks, cell, label, per_row, layout.across - 1, layout.block_rows)
                if fewer.rows > height:
                    break
                layout = fewer
            return layout
    return layout
