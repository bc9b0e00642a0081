"""`rankdeck stop RUN`: ends a run on all its nodes."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_tui import stops
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_OK
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.parser import add_json, add_run, seconds
from rankdeck_tui.cli.surroundings import engine, run_home

if TYPE_CHECKING:
    from rankdeck_runs.stopping import StopProgress, StopResult
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Sends the run's stop signal to every rank on all nodes at once, waits for the grace, kills what is "
    "left, and returns when all is proven gone (0) or says what could not be ended (1)."
)


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)
    parser.add_argument(
        "--grace",
        type=seconds,
        metavar="TIME",
        help="from the signal to SIGKILL, e.g. 30s (default: the profile's)",
    )
    parser.add_argument("--force", action="store_true", help="SIGKILL at once")
    add_json(parser)


def run(args: Namespace) -> int:
    """Stops the run."""
    record = run_home().find(args.run)
    with engine() as running:
        result = wait_for(running.stop(record.id, args.grace, args.force, progress=say_progress))
    if args.json:
        output.print_json({"id": record.id, **result.to_json()})
    tell(record.id, result)
    return EXIT_OK if result.gone else EXIT_FAILED


def say_progress(progress: StopProgress) -> None:
    """Says who is left on a node."""
    if progress.left:
        output.say(stops.left_on(progress))


def tell(run_id: str, result: StopResult) -> None:
    """Says how a stop ended."""
    for process in result.swept:
        output.say(f"{process.node}: ended process {process.pid} beside the ranks: {process.cmd}")
    for process in result.left:
        output.error(
            f"{process.node}: process {process.pid} could not be ended: {process.cmd} ({process.why})"
        )
    for node, message in result.unreached:
        output.error(f"{node}: could not be told to stop: {message}", "its ranks may still be running")
    if result.gone:
        output.say(f"run {run_id}: nothing of it is left on any node")
    else:
        output.say(f"'rankdeck stop {run_id}' tries again")
