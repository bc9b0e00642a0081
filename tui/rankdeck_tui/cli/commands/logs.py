"""`rankdeck logs RUN`: what ranks wrote."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_runs.rank_logs import clock_skews, timed_logs
from rankdeck_tui import rank_choice
from rankdeck_tui.cli.exits import EXIT_INTERRUPTED, EXIT_UNREACHED
from rankdeck_tui.cli.folding import print_folded
from rankdeck_tui.cli.follow import End, View, follow
from rankdeck_tui.cli.interrupts import Choice, Interrupts
from rankdeck_tui.cli.merging import print_merged
from rankdeck_tui.cli.parser import add_json, add_run
from rankdeck_tui.cli.surroundings import engine, run_home
from rankdeck_tui.cli.syncing import synced
from rankdeck_tui.cli.views import LinesView, RawView

if TYPE_CHECKING:
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Prints what ranks wrote: rank after rank, each line with its rank and node. What the record lacks is "
    "fetched from the nodes first. With --raw, one rank's bytes exactly as it wrote them."
)

STREAMS = ("out", "err")


class LogsError(RankdeckError):
    """The choice of logs makes no sense."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)
    parser.add_argument("--rank", metavar="RANKS", help="only these: 0,3-5, node:NAME or failed")
    parser.add_argument("--stream", choices=STREAMS, help="only stdout or only stderr")
    parser.add_argument(
        "--attempt",
        type=int,
        metavar="N",
        help="what ranks wrote in that attempt, from 1, where torchrun started them again; else the newest",
    )
    parser.add_argument(
        "--follow", "-f", action="store_true", help="go on until the run ends; Ctrl-C leaves it running"
    )
    parser.add_argument("--grep", metavar="RE", help="only lines in which this regular expression is found")
    parser.add_argument(
        "--merge", action="store_true", help="lines of all ranks in the order of time, each with its time"
    )
    parser.add_argument(
        "--fold", action="store_true", help="the same line, or traceback, of many ranks once, with its ranks"
    )
    parser.add_argument("--odd", action="store_true", help="with --fold: only what not all ranks said alike")
    add_json(parser, "with --fold: one JSON document")
    parser.add_argument("--raw", action="store_true", help="exact bytes; needs one rank and one stream")


def run(args: Namespace) -> int:
    """Prints the logs."""
    record = run_home().find(args.run)
    snapshot = record.snapshot()
    ranks = _ranks(args, snapshot)
    if args.attempt is not None and not 1 <= args.attempt <= snapshot.attempt:
        raise LogsError(
            f"--attempt {args.attempt}: run {record.id} is known to have had {snapshot.attempt}",
            f"give a number from 1 to {snapshot.attempt}",
        )
    pattern = _pattern(args.grep)
    if args.raw and (args.rank is None or len(ranks) != 1 or args.stream is None):
        raise LogsError("--raw needs one rank and one stream", "add for example --rank 0 --stream out")
    if args.raw and pattern is not None:
        raise LogsError(
            "--raw prints everything, so --grep can't choose lines", "pipe the output into grep instead"
        )
    _check_together(args)
    streams = STREAMS if args.stream is None else (args.stream,)
    logs = record.logs_path
    view: View
    if args.raw:
        view = RawView(logs / layout.rank_log(ranks[0], streams[0], _attempt(args, snapshot)))
    else:
        view = LinesView(logs, ranks if args.rank else None, streams, pattern, args.attempt)
    if args.merge or args.fold:
        whole = synced(record, snapshot)
        skews = clock_skews(record.events_path)
        timed = timed_logs(logs, record.snapshot(), ranks, streams, skews, args.attempt)
        if args.fold:
            print_folded(timed, ranks, pattern, odd_only=args.odd, as_json=args.json)
        else:
            print_merged(timed, pattern)
        return 0 if whole else EXIT_UNREACHED
    if args.follow and not snapshot.complete:
        return _follow(record, view)
    whole = synced(record, snapshot)
    view.finish(record.snapshot())
    return 0 if whole else EXIT_UNREACHED


def _check_together(args: Namespace) -> None:
    sorting = "--fold" if args.fold else "--merge"
    if (args.merge or args.fold) and (args.raw or args.follow):
        raise LogsError(
            f"{sorting} and {'--raw' if args.raw else '--follow'} do not go together",
            f"--follow prints lines as they come; {sorting} takes those that are there",
        )
    if not args.fold and (args.odd or args.json):
        raise LogsError(f"{'--odd' if args.odd else '--json'} is of use only with --fold", "add --fold")


def _ranks(args: Namespace, snapshot: RunSnapshot) -> tuple[int, ...]:
    return tuple(range(len(snapshot.ranks))) if args.rank is None else rank_choice.chosen(args.rank, snapshot)


def _attempt(args: Namespace, snapshot: RunSnapshot) -> int:
    return snapshot.attempt if args.attempt is None else int(args.attempt)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        at = "" if error.pos is None else f" at character {error.pos + 1}"
        raise LogsError(f"--grep {text!r} is no regular expression: {error.msg}{at}") from None


def _follow(record: Record, view: View) -> int:
    with engine() as running, Interrupts() as interrupts:
        end, _ = follow(running, record.id, view, interrupts, on_interrupt=lambda: Choice.DETACH)
    return EXIT_INTERRUPTED if end is End.DETACHED else 0
