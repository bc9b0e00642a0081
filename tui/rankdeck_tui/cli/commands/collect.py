"""`rankdeck collect RUN`: brings every log that the record lacks, and proves that it is the nodes' own."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rankdeck_runs.collection import CopyState
from rankdeck_runs.states import NodeState
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_OK, EXIT_UNREACHED
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.keptlines import told
from rankdeck_tui.cli.parser import add_json, add_run
from rankdeck_tui.cli.surroundings import engine, run_home

if TYPE_CHECKING:
    from rankdeck_runs.collection import Kept
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Brings every log that a run's record lacks from its nodes, from the byte where the last try stopped, "
    "and compares size and SHA-256 of each with the node's. The exit status is 0 when all is here, 3 when a "
    "node could not be reached, 1 when something is lost."
)


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)
    parser.add_argument(
        "--remove-from-nodes",
        action="store_true",
        help="then remove the run's folder from each node whose logs are all here and verified",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Collects, and says what is here."""
    record = run_home().find(args.run)
    with engine() as running:
        kept = wait_for(running.collect(record.id))
        cleared = _clear(running, record) if args.remove_from_nodes else None
    snapshot = record.snapshot()
    if cleared is not None:
        kept = record.kept(snapshot)
    if args.json:
        output.print_json({"id": record.id, **kept.to_json(), **(cleared or {})})
    if snapshot.state.goes_on:
        return _told_of_one_that_goes_on(snapshot)
    if not args.json:
        for line in told(kept):
            print(output.printable(line))
    return _status(kept)


def _told_of_one_that_goes_on(snapshot: RunSnapshot) -> int:
    output.say(f"run {snapshot.id} goes on ({snapshot.state}): logs are verified once it has ended")
    lost = [node for node in snapshot.nodes if node.state is NodeState.LOST]
    for node in lost:
        output.warning(f"{node.name}: {node.message}")
    return EXIT_UNREACHED if lost else EXIT_OK


def _clear(running: Engine, record: Record) -> dict[str, Any]:
    cleared = wait_for(running.clear_nodes(record.id))
    for node, why in cleared.left.items():
        output.warning(f"{node}: {why}")
    return cleared.to_json()


def _status(kept: Kept) -> int:
    if kept.state is CopyState.LOST:
        return EXIT_FAILED
    return EXIT_UNREACHED if kept.state is CopyState.MISSING else EXIT_OK
