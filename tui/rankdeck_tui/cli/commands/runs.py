"""`rankdeck runs`: the runs on record, how much room they take, and being rid of old ones."""

from __future__ import annotations

import time
from argparse import Namespace

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui import words
from rankdeck_tui.cli import output, wording
from rankdeck_tui.cli.parser import add_json, seconds
from rankdeck_tui.cli.surroundings import run_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_runs.summary import RunSummary
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Lists the runs on record, newest first, without contacting any node. Those of `rankdeck check "
    "--active`, in which pairs of nodes send, are left out without --all. With --prune it removes runs that "
    "have ended, here and on their nodes: it shows first what would go, and asks. A run that goes on, or "
    "may, always stays."
)

STALE_SECONDS = 10.0
"""A state known for less long needs no remark."""
SHOWN_LACKS = 3
"""Runs of which it is said what their records lack."""


class RunsError(RankdeckError):
    """The options do not fit together."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.add_argument("--all", action="store_true", help="the runs of active tests, too")
    add_json(parser)
    parser.add_argument(
        "--prune", action="store_true", help="remove runs that have ended; says which ones: see below"
    )
    pruning = parser.add_argument_group(
        "with --prune, runs go that meet all of these; at least one is needed"
    )
    pruning.add_argument("run", nargs="*", metavar="RUN", help="these runs alone")
    pruning.add_argument(
        "--older-than", type=seconds, metavar="TIME", help="ended longer ago than that, e.g. 30d or 12h"
    )
    pruning.add_argument("--keep", type=_count, metavar="N", help="all but the N newest runs")
    pruning.add_argument("--failed", action="store_true", help="runs that failed")
    pruning.add_argument(
        "--uncollected",
        action="store_true",
        help="also runs whose logs are not all in their records: what is missing is lost with them",
    )
    pruning.add_argument("--yes", "-y", action="store_true", help="do not ask")


def run(args: Namespace) -> int:
    """Prints the list, or removes runs."""
    if args.prune:
        from rankdeck_tui.cli.pruning import prune

        return prune(args)
    _check_unpruned(args)
    summaries = run_home().list(active_tests=args.all)
    if args.json:
        output.print_json([summary.to_json() for summary in summaries])
    elif not summaries:
        output.say("no runs yet: 'rankdeck demo' makes one, 'rankdeck run PROFILE' launches yours")
    else:
        _print(summaries)
    return 0


def _check_unpruned(args: Namespace) -> None:
    given = {
        "RUN": args.run,
        "--older-than": args.older_than is not None,
        "--keep": args.keep is not None,
        "--failed": args.failed,
        "--uncollected": args.uncollected,
        "--yes": args.yes,
    }
    for name in (name for name, there in given.items() if there):
        raise RunsError(f"{name} goes with --prune", "'rankdeck show RUN' shows one run")


def _count(text: str) -> int:
    import argparse

    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs: 0 or more")
    return int(text)


def _print(summaries: list[RunSummary]) -> None:
    output.print_table(
        ("RUN", "STATE", "PROFILE", "FRAMEWORK", "POOL", "RANKS", "CREATED", "TOOK", "SIZE", "LOGS"),
        [
            (
                summary.id,
                str(summary.state),
                summary.profile,
                summary.framework,
                summary.pool,
                str(summary.world_size),
                words.moment(wording.unix(summary.created)),
                words.duration(_took(summary)),
                words.size(summary.disk_bytes),
                summary.logs or "-",
            )
            for summary in summaries
        ],
    )
    total = words.size(sum(summary.disk_bytes or 0 for summary in summaries))
    output.say(f"{words.plural(len(summaries), 'run')}, {total} in {run_home().runs}")
    _tell_lacks(summaries)
    _tell_stale(summaries)


def _tell_lacks(summaries: list[RunSummary]) -> None:
    """Says which records do not hold all logs, and why."""
    lacking = [summary for summary in summaries if summary.lacks]
    for summary in lacking[:SHOWN_LACKS]:
        output.say(f"{summary.id}: {summary.lacks}: 'rankdeck collect {summary.id}' asks again")
    if len(lacking) > SHOWN_LACKS:
        output.say(f"... and {words.plural(len(lacking) - SHOWN_LACKS, 'more run')} without all logs")


def _tell_stale(summaries: list[RunSummary]) -> None:
    """Says how old the states are that may have changed since somebody looked."""
    now = time.time()
    stale = [
        summary for summary in summaries if not summary.complete and now - summary.updated > STALE_SECONDS
    ]
    if stale:
        oldest = words.age(now - min(summary.updated for summary in stale))
        runs = words.plural(len(stale), "run")
        output.say(f"{runs} as last seen up to {oldest} ago: 'rankdeck show {stale[0].id}' asks its nodes")


def _took(summary: RunSummary) -> float | None:
    """Seconds from the first rank's begin to the end, or to the last look at a run that goes on."""
    started = wording.unix(summary.started)
    if started is None:
        return None
    return (wording.unix(summary.ended) or summary.updated or time.time()) - started
