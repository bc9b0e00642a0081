"""`rankdeck runs`: the runs on record."""

from __future__ import annotations

import time
from argparse import Namespace

from rankdeck_tui import words
from rankdeck_tui.cli import output, wording
from rankdeck_tui.cli.parser import add_json
from rankdeck_tui.cli.surroundings import run_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_runs.summary import RunSummary
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Lists the runs on record, newest first, without contacting any node. Those of `rankdeck check "
    "--active`, in which pairs of nodes send, are left out without --all."
)

STALE_SECONDS = 10.0
"""A state known for less long needs no remark."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.add_argument("--all", action="store_true", help="the runs of active tests, too")
    add_json(parser)


def run(args: Namespace) -> int:
    """Prints the list."""
    summaries = run_home().list(active_tests=args.all)
    if args.json:
        output.print_json([summary.to_json() for summary in summaries])
    elif not summaries:
        output.say("no runs yet: 'rankdeck demo' makes one, 'rankdeck run PROFILE' launches yours")
    else:
        output.print_table(
            ("RUN", "STATE", "PROFILE", "FRAMEWORK", "POOL", "RANKS", "CREATED", "TOOK"),
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
                )
                for summary in summaries
            ],
        )
        _tell_stale(summaries)
    return 0


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
