"""A plot of one metric: mean over ranks, spread, a chosen rank, and the axes. Pure."""

from __future__ import annotations

import math

from rich.style import Style
from textual.strip import Strip

from rankdeck_runs.metrics.stats import written
from rankdeck_tui.look import Look, draw
from rankdeck_tui.plots.canvas import Canvas
from rankdeck_tui.plots.columns import Columns, Line

LABEL = 9
"""Cells of the values at the left."""
LEAST_HEIGHT = 3


def dots_across(width: int, look: Look) -> int:
    """How many columns a plot of so many cells has."""
    return max(1, (width - LABEL - 1) * (2 if look.glyphs.unicode else 1))


def paint(columns: Columns | None, width: int, height: int, look: Look, place: str) -> list[Strip]:
    """The rows of a plot.

    Args:
        columns: from `columns.of` for `dots_across(width)`; None: nothing finite was told.
        width: in cells.
        height: in rows; the last one holds the places.
        look: inks and glyphs.
        place: what the places are: `step`, or `value`.
    """
    ink = look.ink
    if columns is None or width < LABEL + 4 or height < LEAST_HEIGHT:
        said = "no finite value yet" if columns is None else "too small"
        return [draw.line([(said, ink.dim)], width, ink.text)]
    canvas = Canvas(width - LABEL - 1, height - 1, fine=look.glyphs.unicode)
    low, high = _range(columns)
    _spread(canvas, columns, low, high, ink.faint)
    canvas.layer()
    _line(canvas, columns.mean, low, high, "*", ink.accent)
    canvas.layer()
    _line(canvas, columns.rank, low, high, "o", ink.warn)
    rows = []
    for number, strip in enumerate(canvas.strips(ink.text)):
        label = written(_at(number, height - 1, low, high)) if _labelled(number, height - 1) else ""
        edge = [(draw.pad(label, LABEL - 1, right=True), ink.dim), (" " + look.glyphs.down, ink.faint)]
        rows.append(Strip.join([draw.line(edge, LABEL + 1, ink.text), strip]))
    first, last = f"{place} {columns.first:,.0f}", f"{columns.last:,.0f}"
    foot = [(" " * (LABEL + 1), ink.text), (first, ink.dim)]
    rows.append(draw.ends(foot, [(last, ink.dim)], width, ink.text))
    return rows


def _range(columns: Columns) -> tuple[float, float]:
    lines = (columns.low, columns.high, columns.rank)
    values = [value for line in lines for value in line if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return low - room, high + room
    if not math.isfinite(high - low):
        return low / 2, high / 2
    return low, high


def _labelled(row: int, rows: int) -> bool:
    return row in (0, rows - 1) or (rows >= 7 and row == (rows - 1) // 2)


def _at(row: int, rows: int, low: float, high: float) -> float:
    return high - (high - low) * row / max(rows - 1, 1)


def _dot(value: float, low: float, high: float, rows: int) -> int:
    share = (value - low) / (high - low)
    return round((1 - min(1.0, max(0.0, share))) * (rows - 1))


def _spread(canvas: Canvas, columns: Columns, low: float, high: float, style: Style) -> None:
    """Every other dot, so that it is lighter than a line without any colour."""
    for x, (bottom, top) in enumerate(zip(columns.low, columns.high, strict=True)):
        if bottom is None or top is None or bottom == top:
            continue
        for y in range(_dot(top, low, high, canvas.rows), _dot(bottom, low, high, canvas.rows) + 1):
            if canvas.across == 1 or (x + y) % 2 == 0:
                canvas.dot(x, y, ".", style)


def _line(canvas: Canvas, line: Line, low: float, high: float, letter: str, style: Style) -> None:
    before: int | None = None
    for x, value in enumerate(line):
        if value is None:
            before = None
            continue
        y = _dot(value, low, high, canvas.rows)
        # From just behind where the last column ended, so that a steep line has no gaps.
        start = y if before is None or abs(y - before) < 2 else before + (1 if y > before else -1)
        for between in range(min(start, y), max(start, y) + 1):
            canvas.dot(x, between, letter, style)
        before = y
