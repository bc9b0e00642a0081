"""Curves of many ranks in as many columns as a plot has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankdeck_runs.metrics.series import Series

Line = tuple[float | None, ...]
"""A value for each column; None where there is none."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a plot shows of one metric."""

    first: float
    last: float
    """The places of the outermost columns: steps, or numbers of values."""
    mean: Line
    """Over the ranks, of each rank's mean in that column; None where fewer than half of them have told: of
    those that are ahead of the others it would be another mean."""
    low: Line
    high: Line
    rank: Line
    """The chosen rank's; all None where none is chosen."""


def of(series: Mapping[int, Series], count: int, rank: int | None = None) -> Columns | None:
    """Ranks' curves in columns.

    Args:
        series: of each rank.
        count: columns, at least 1.
        rank: the chosen one.

    Returns:
        None where no rank has told a finite value.
    """
    places = [place for one in series.values() for place in (one.xs[:1] + one.xs[-1:])]
    if not places:
        return None
    tellers = sum(bool(one.xs) for one in series.values())
    first, last = min(places), max(places)
    scale = (count - 1) / (last - first) if last > first else 0.0
    sums, lows, highs, told = [0.0] * count, [0.0] * count, [0.0] * count, [0] * count
    chosen: Line = (None,) * count
    for number, one in series.items():
        line = _binned(one, first, scale, count)
        if number == rank:
            chosen = line
        for column, value in enumerate(line):
            if value is None:
                continue
            sums[column] += value
            lows[column] = value if not told[column] else min(lows[column], value)
            highs[column] = value if not told[column] else max(highs[column], value)
            told[column] += 1

    def shown(values: list[float]) -> Line:
        return tuple(
            value if ranks * 2 > tellers else None for value, ranks in zip(values, told, strict=True)
        )

    means = [total / max(ranks, 1) for total, ranks in zip(sums, told, strict=True)]
    return Columns(first, last, shown(means), shown(lows), shown(highs), chosen)


def _binned(series: Series, first: float, scale: float, count: int) -> Line:
    """One rank's curve: the mean of what falls into a column, a straight line where nothing does."""
    sums, told = [0.0] * count, [0] * count
    for x, y in zip(series.xs, series.ys, strict=True):
        column = int((x - first) * scale + 0.5)
        sums[column] += y
        told[column] += 1
    line: list[float | None] = [
        total / number if number else None for total, number in zip(sums, told, strict=True)
    ]
    before: int | None = None
    for column, value in enumerate(line):
        if value is None:
            continue
        if before is not None and column - before > 1:
            start = line[before]
            assert start is not None
            for between in range(before + 1, column):
                line[between] = start + (value - start) * (between - before) / (column - before)
        before = column
    return tuple(line)
