"""`rankdeck run PROFILE`: launches a profile, and follows the run."""

from __future__ import annotations

import errno
from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_tui import causes
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNREACHED,
    EXIT_UNREAD,
    UNWRITABLE,
)
from rankdeck_tui.cli.follow import End, View, follow
from rankdeck_tui.cli.interrupts import Interrupts
from rankdeck_tui.cli.launching import launch
from rankdeck_tui.cli.parser import add_json, add_profile, choice_of
from rankdeck_tui.cli.surroundings import engine, profile_and_pool, run_home
from rankdeck_tui.cli.views import EventsView, RunView

if TYPE_CHECKING:
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Launches a profile and prints every rank's lines as they come. The exit status is the run's: 0 if it "
    "succeeded. Ctrl-C asks whether to stop the run or to leave it running; a second one stops it."
)


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_profile(parser)
    parser.add_argument(
        "--detach",
        action="store_true",
        help="return as soon as the start is under way on every node, printing the run's id",
    )
    parser.add_argument(
        "--skip-checks", action="store_true", help="start although checks fail, or nodes lack something"
    )
    add_json(parser, "one JSON event a line while following; with --detach one document with the run's id")


def run(args: Namespace) -> int:
    """Launches, and follows unless told not to."""
    profile, pool = profile_and_pool(args.profile, args.overrides, args.pool, choice_of(args))
    with engine() as running, Interrupts() as interrupts:
        run_id = launch(running, profile, pool, interrupts, skip_checks=args.skip_checks)
        if args.detach:
            if args.json:
                output.print_json({"id": run_id})
            else:
                print(run_id)
            return EXIT_OK
        record = run_home().find(run_id)
        view: View = EventsView(record.events_path) if args.json else RunView(record.logs_path)
        try:
            end, snapshot = follow(running, run_id, view, interrupts, on_interrupt=interrupts.ask)
        except OSError as problem:
            if problem.errno not in UNWRITABLE:
                raise
            output.error(
                f"{_why_unprinted(problem)}; run {run_id} goes on",
                f"'rankdeck attach {run_id}' shows it again, 'rankdeck stop {run_id}' ends it",
            )
            output.forget_stdout()
            return EXIT_UNREAD
    return _told(end, snapshot)


def _why_unprinted(problem: OSError) -> str:
    if problem.errno == errno.EPIPE:
        return "nobody reads the output any more"
    return f"standard output can't be written: {problem.strerror}"


def _told(end: End, snapshot: RunSnapshot) -> int:
    """Says how following ended. Returns the exit status."""
    if end is End.DETACHED:
        output.say(f"run {snapshot.id} goes on: 'rankdeck attach {snapshot.id}' shows it again")
        return EXIT_OK
    if end is End.UNWRITTEN:
        output.error(
            f"the record of run {snapshot.id} can't be written: how it goes on is not seen here any more",
            f"make room; 'rankdeck attach {snapshot.id}' then fetches all, "
            f"'rankdeck stop {snapshot.id}' ends the run",
        )
        return EXIT_FAILED
    output.say(f"run {snapshot.id} {snapshot.state}")
    if end is End.NODES_LOST:
        lost = [node for node in snapshot.nodes if not node.state.is_terminal]
        output.error(
            "; ".join(f"{node.name} can't be reached: {node.message}" for node in lost),
            f"all other nodes have ended; 'rankdeck show {snapshot.id}' looks again, "
            f"'rankdeck stop {snapshot.id}' ends what is left",
        )
        return EXIT_UNREACHED
    if snapshot.cause is not None:
        cause = snapshot.cause
        told = [f"{causes.where(cause)}: {cause.message}"]
        told += [cause.said] if cause.said else []
        told += causes.places(cause)[:1] + causes.followers(cause)
        output.error("\n  ".join(told), f"'rankdeck show {snapshot.id}' has more")
    return EXIT_INTERRUPTED if end is End.STOPPED else snapshot.exit_status
