"""The run's loss in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.metrics.stats import leading, summarise, written
from rankdeck_tui.cli.commands.metrics import odd_words, place

if TYPE_CHECKING:
    from rankdeck_runs.record import Record

SECONDS = 2.0
"""How long `show` may read logs for it."""


def leading_metric(record: Record) -> str:
    """`loss 0.4321 at step 120, best 0.41 at step 90 (rank 3)`; empty: the logs tell of no loss."""
    book = MetricsBook(record.path)
    book.update(seconds=SECONDS)
    name = leading(book.names())
    metric = summarise(name, book.of(name)) if name is not None else None
    if metric is None:
        return ""
    said = f"{metric.name} {written(metric.mean)} at {place(metric, metric.x)}"
    if len(metric.ranks) > 1:
        said += f" (mean of {len(metric.ranks)} ranks, {written(metric.low)} to {written(metric.high)})"
    if metric.best is not None:
        best = f"best {written(metric.best)} at {place(metric, metric.best_x)}, rank {metric.best_rank}"
        said += f"; {best}"
    odd = odd_words(metric)
    return f"{said}; {odd}" if odd else said
