"""What the plots on screen show, put together beside the screen's own thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.metrics.stats import Summary, leading, summarise
from rankdeck_tui.plots import columns
from rankdeck_tui.plots.columns import Columns


@dataclass(frozen=True, slots=True)
class Shown:
    """One plot's contents."""

    name: str
    summary: Summary
    columns: Columns | None
    rank: int | None
    """The chosen rank."""
    rank_last: float | None
    """Its last value; None: it told none."""


def order(names: Sequence[str], single: frozenset[str]) -> tuple[str, ...]:
    """Metrics as they are shown: the loss first, what has one value a rank, and the epoch, last.

    Args:
        names: in the order in which they came up.
        single: those with one value a rank at most.
    """
    first = leading(names)
    return tuple(sorted(names, key=lambda name: (name in single, name == "epoch", name != first)))


def names_of(book: MetricsBook) -> tuple[str, ...]:
    """A run's metrics in the order in which they are shown."""
    names = book.names()
    return order(names, frozenset(name for name in names if all(n < 2 for n in book.counts(name))))


def gathered(book: MetricsBook, names: Sequence[str], dots: int, rank: int | None) -> tuple[Shown, ...]:
    """The contents of the plots in view.

    Args:
        book: the run's metrics.
        names: which are in view.
        dots: columns of a plot.
        rank: the chosen rank.
    """
    found = []
    for name in names:
        series = book.of(name)
        summary = summarise(name, series)
        if summary is None:
            continue
        one = series.get(rank) if rank is not None else None
        shown = columns.of(series, dots, rank)
        found.append(Shown(name, summary, shown, rank, one.last if one is not None else None))
    return tuple(found)
