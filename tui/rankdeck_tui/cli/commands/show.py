"""`rankdeck show RUN`: what is known of a run."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_runs import known_lines
from rankdeck_runs.sanitise import plain
from rankdeck_tui import causes, words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.keptlines import told
from rankdeck_tui.cli.leading_metric import leading_metric
from rankdeck_tui.cli.parser import add_json, add_run
from rankdeck_tui.cli.surroundings import run_home
from rankdeck_tui.cli.syncing import latest

if TYPE_CHECKING:
    from rankdeck_runs.causes import Cause
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RankStatus, RunSnapshot
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Shows a run's state, nodes, ranks, exit codes and the cause of a failure, as far as the record knows."
)

LAST_LINES = 8
"""Lines of a failed rank's log that are shown where they hold no error."""
LOOKED_AT = 200
"""Lines of its end among which those are looked for that are not known to be harmless."""
LONGEST = 500
"""Bytes shown of each."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)
    parser.add_argument("--offline", action="store_true", help="ask no node; show what is on record")
    add_json(parser)


def run(args: Namespace) -> int:
    """Prints the run."""
    record = run_home().find(args.run)
    snapshot = latest(record, offline=args.offline)
    kept = record.kept(snapshot)
    if args.json:
        output.print_json({**snapshot.to_json(), **kept.to_json()})
        return 0
    _print_head(snapshot)
    if snapshot.attempt_text:
        print(snapshot.attempt_text)
    print(f"record {output.printable(str(record.path))}, {words.size(kept.disk)}")
    if not snapshot.state.goes_on:
        for line in told(kept):
            print(output.printable(line))
    for past in snapshot.earlier_attempts:
        print(output.printable(past.text))
    if snapshot.fabric_unused:
        print(f"{output.paint('network', output.RED, sys.stdout)} {output.printable(snapshot.fabric_unused)}")
    if snapshot.cause is not None:
        _print_cause(snapshot.cause, record)
    if said := leading_metric(record):
        print(output.printable(said))
    print()
    output.print_table(
        ("NODE", "STATE", "ADDRESS", "RANKS", ""),
        [
            (node.name, str(node.state), node.address, words.as_ranges(node.ranks), node.message)
            for node in snapshot.nodes
        ],
    )
    print()
    output.print_table(
        ("RANK", "STATE", "NODE", "LOCAL RANK", "PID", "EXIT", "TOOK", "OUT", "ERR", ""),
        [_rank_row(rank) for rank in snapshot.ranks],
    )
    for line in words.swept(snapshot.swept):
        print(output.printable(line))
    for process in snapshot.swept:
        print(output.printable(f"swept on {process.node}: {process.pid} {process.cmd}"))
    for note in snapshot.notes:
        print(output.printable(f"note: {note}"))
    return 0


def _print_head(snapshot: RunSnapshot) -> None:
    nodes = words.plural(len(snapshot.nodes), "node")
    ranks = words.plural(snapshot.world_size, "rank")
    pool = f"pool {snapshot.pool} ({snapshot.backend})" if snapshot.pool else snapshot.backend
    timing = snapshot.timing
    print(f"run {snapshot.id}: {output.state(str(snapshot.state), sys.stdout)}")
    print(output.printable(f"{snapshot.profile}, {snapshot.framework}, {ranks} on {nodes} of {pool}"))
    if timing.started is None:
        print(f"created {words.moment(timing.created)}")
    else:
        until = timing.ended or time.time()
        took = words.duration(until - timing.started)
        print(f"started {words.moment(timing.started)}, {'took' if timing.ended else 'for'} {took}")


def _print_cause(cause: Cause, record: Record) -> None:
    said = f"{causes.where(cause)}: {cause.message}"
    print(f"{output.paint('cause', output.RED, sys.stdout)} {output.printable(said)}")
    if cause.said:
        print(output.printable(f"  why: {cause.said}"))
    for place in causes.places(cause):
        print(output.printable(f"  see: {place}"))
    for group in causes.followers(cause):
        print(output.printable(f"  {group}"))
    said = cause.message.strip()
    told = [line for line in cause.evidence if line.strip() != said]
    if cause.rank is not None and (not cause.evidence or cause.evidence[0].strip() == said):
        # Its logs hold no error that could be told: what it wrote last may still say something.
        title, told = _last_words(record, cause.rank)
        if told:
            print(title)
    for line in told:
        print(output.printable(f"    {line}"))


def _last_words(record: Record, rank: int) -> tuple[str, list[str]]:
    """The end of a rank's error log, or of its output where that is empty, and what to call it."""
    for stream, name in (("err", "stderr"), ("out", "stdout")):
        log = record.log(rank, stream)
        lines = known_lines.sort(
            [text for line in log.before(log.size, LOOKED_AT) if (text := plain(line.data[:LONGEST])).strip()]
        )
        if lines.lines:
            return f"its {name} ends with", [*lines.harmless, *lines.lines[-LAST_LINES:]]
    return "", []


def _rank_row(rank: RankStatus) -> tuple[str, ...]:
    if rank.signal is not None:
        ended = f"SIG{rank.signal}"
    else:
        ended = "-" if rank.exit_code is None else str(rank.exit_code)
    took = None if rank.started is None else (rank.ended or time.time()) - rank.started
    return (
        str(rank.rank),
        str(rank.state),
        rank.node or "-",
        str(rank.local_rank),
        "-" if rank.pid is None else str(rank.pid),
        ended,
        words.duration(took),
        words.size(rank.out_bytes),
        words.size(rank.err_bytes),
        rank.why,
    )
