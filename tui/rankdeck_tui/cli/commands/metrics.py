"""`rankdeck metrics RUN`: the numbers that ranks wrote into their logs."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.metrics.stats import Summary, json_number, summarise, written
from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_WRONG
from rankdeck_tui.cli.parser import add_json, add_run
from rankdeck_tui.cli.surroundings import run_home
from rankdeck_tui.cli.syncing import latest
from rankdeck_tui.rank_choice import chosen

if TYPE_CHECKING:
    from rankdeck_runs.metrics.series import Series
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Shows the metrics in a run's logs: the last value as the mean over ranks, its spread, and the best. "
    "What the record lacks is fetched from the nodes first, unless --offline."
)
HOW = (
    "lines such as 'step 10 loss 0.5 lr 1e-4' are found by themselves; other forms are named by the "
    "profile's [metrics] (docs/metrics.md)"
)
SECONDS = 120.0
"""How long reading what the logs hold may take."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)
    parser.add_argument(
        "--name", metavar="NAME", action="append", help="only this metric (may be given again)"
    )
    parser.add_argument("--ranks", metavar="RANKS", help="only these ranks, e.g. 0,3-5")
    parser.add_argument("--offline", action="store_true", help="ask no node; show what is on record")
    add_json(parser)


def run(args: Namespace) -> int:
    """Prints the metrics."""
    record = run_home().find(args.run)
    snapshot = latest(record, offline=args.offline)
    ranks = set(range(len(snapshot.ranks)) if args.ranks is None else chosen(args.ranks, snapshot))
    book = MetricsBook(record.path)
    if not book.update(seconds=SECONDS):
        output.warning("not all of the logs has been read yet; the same command goes on where this one ended")
    for name in book.slow:
        output.warning(f"metrics.{name} of the profile took too long for a line and was left out from there")
    names = book.names()
    if wrong := [name for name in args.name or () if name not in names]:
        output.error(f"run {record.id} has no metric {wrong[0]!r}", _what_there_is(names))
        return EXIT_WRONG
    shown = []
    for name in args.name or names:
        series = {rank: one for rank, one in book.of(name).items() if rank in ranks}
        if (summary := summarise(name, series)) is not None:
            shown.append((summary, series))
    if args.json:
        document = [{**summary.to_json(), "by_rank": _by_rank(series)} for summary, series in shown]
        output.print_json({"run": record.id, "metrics": document})
        return 0
    if not shown:
        output.say(f"run {record.id} has no metrics: {HOW}")
        return 0
    output.print_table(
        ("METRIC", "LAST", "SPREAD", "BEST", "AT", "VALUES", "RANKS", ""),
        [_row(summary) for summary, _ in shown],
    )
    return 0


def _what_there_is(names: list[str]) -> str:
    return f"it has {', '.join(names)}" if names else f"it has none: {HOW}"


def _row(metric: Summary) -> tuple[str, ...]:
    spread, best = "-", "-"
    if len(metric.ranks) > 1:
        low, high = written(metric.low), written(metric.high)
        spread = (
            "equal" if low == high else f"{low} (rank {metric.low_rank}) to {high} (rank {metric.high_rank})"
        )
    if metric.best is not None:
        best = f"{written(metric.best)} ({place(metric, metric.best_x)}, rank {metric.best_rank})"
    return (
        metric.name,
        written(metric.mean),
        spread,
        best,
        place(metric, metric.x),
        f"{metric.count:,}",
        words.as_ranges(metric.ranks),
        odd_words(metric),
    )


def place(metric: Summary, x: float) -> str:
    """Where a value stands: `step 120`, or `value 120` where lines name no step."""
    return f"{'step' if metric.stepped else 'value'} {x:,.0f}"


def odd_words(metric: Summary) -> str:
    """What is to be said of values that are no finite numbers; empty: there were none."""
    if metric.odd_x is None:
        return ""
    first = f"first at {place(metric, metric.odd_x)}"
    if metric.odd:
        return f"NaN or infinite on ranks {words.as_ranges(metric.odd)}, {first}"
    return f"was NaN or infinite, {first}"


def _by_rank(series: dict[int, Series]) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "last": json_number(one.last),
            "at": one.last_x,
            "min": json_number(one.low),
            "max": json_number(one.high),
            "values": one.count,
            "not_finite": one.odd,
        }
        for rank, one in series.items()
    ]
