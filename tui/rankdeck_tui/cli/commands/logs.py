"""`rankdeck logs RUN`: what ranks wrote."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_tui.cli import wording
from rankdeck_tui.cli.exits import EXIT_INTERRUPTED, EXIT_UNREACHED
from rankdeck_tui.cli.follow import End, View, follow
from rankdeck_tui.cli.interrupts import Choice, Interrupts
from rankdeck_tui.cli.merging import print_merged
from rankdeck_tui.cli.parser import add_run
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
    parser.add_argument("--rank", metavar="RANKS", help="only these ranks, e.g. 0,3-5")
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
    if args.merge and (args.raw or args.follow):
        other = "--raw" if args.raw else "--follow"
        raise LogsError(
            f"--merge and {other} do not go together",
            "--follow prints lines as they come; --merge puts those that are there in the order of time",
        )
    streams = STREAMS if args.stream is None else (args.stream,)
    logs = record.logs_path
    view: View
    if args.raw:
        view = RawView(logs / layout.rank_log(ranks[0], streams[0], _attempt(args, snapshot)))
    else:
        view = LinesView(logs, ranks if args.rank else None, streams, pattern, args.attempt)
    if args.merge:
        whole = synced(record, snapshot)
        print_merged(record, record.snapshot(), ranks, streams, pattern, args.attempt)
        return 0 if whole else EXIT_UNREACHED
    if args.follow and not snapshot.complete:
        return _follow(record, view)
    whole = synced(record, snapshot)
    view.finish(record.snapshot())
    return 0 if whole else EXIT_UNREACHED


def _ranks(args: Namespace, snapshot: RunSnapshot) -> tuple[int, ...]:
    known = range(len(snapshot.ranks))
    return tuple(known) if args.rank is None else wording.ranks_of(args.rank, known)


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
