"""`rankdeck gpus`: the GPUs of a pool's nodes, or of the nodes of a run."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_OK
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.parser import add_choice, add_json, choice_of
from rankdeck_tui.cli.surroundings import engine, library, run_home

if TYPE_CHECKING:
    from rankdeck_profiles.facts import NodeFacts
    from rankdeck_profiles.selection import Choice
    from rankdeck_runs.live import Sample
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Shows the GPUs of a pool's nodes (without one: of this machine), or what those of a run that goes on "
    "are doing. What the driver does not tell is '-'."
)

WATCH_SECONDS = 1.0
"""At least between two tables: nodes tell their load every 2 s, each at its own moment."""
SAMPLE_SECONDS = 15.0
"""How long the nodes of a run may take until each has told its load once."""


class GpusError(RankdeckError):
    """It is not clear whose GPUs are meant, or they can't be told."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run that goes on: what its GPUs are doing")
    parser.add_argument("--pool", metavar="POOL", help="a pool's name (default: this machine)")
    parser.add_argument(
        "--watch", action="store_true", help="of a run: again and again until it ends, or Ctrl-C"
    )
    add_choice(parser)
    add_json(parser, "one JSON document on stdout; with --watch one a line")


def run(args: Namespace) -> int:
    """Prints the table."""
    choice = choice_of(args)
    if args.run is not None and (args.pool is not None or choice):
        what = "a pool" if args.pool is not None else "nodes"
        raise GpusError(f"a run and {what} were given", "give one of the two: a run has its own nodes")
    if args.watch:
        if args.run is None:
            raise GpusError(
                "--watch needs a run: a pool's nodes are asked which GPUs they have, not what those do",
                "'rankdeck gpus RUN --watch'; 'rankdeck runs' lists them",
            )
        return _watch(args.run, as_json=args.json)
    rows, notes = _of_run(args.run) if args.run is not None else _of_pool(args.pool, choice)
    if args.json:
        output.print_json(rows)
    else:
        _print(rows)
    for note in notes:
        output.say(note)
    return EXIT_OK


def _print(rows: list[dict[str, Any]]) -> None:
    if rows:
        output.print_table(
            ("NODE", "GPU", "NAME", "UTIL", "MEMORY MiB", "TEMP", "POWER", "RANK"),
            [_cells(row) for row in rows],
        )


def _watch(name: str, *, as_json: bool) -> int:
    """Prints the table each time that a node has told its load, until the run ends."""
    record = run_home().find(name)
    _check_goes_on(record.id, record.snapshot())
    told: dict[str, Sample] = {}
    noted: set[str] = set()
    with engine() as running:
        live = running.attach(record.id)
        version = 0
        while not live.snapshot().state.is_terminal:
            version = live.wait(version, 0.2)
            samples = dict(live.samples)
            if samples == told:
                continue
            told = samples
            rows, notes = _rows(samples, live.snapshot())
            _print_again(rows, as_json=as_json)
            for note in notes:
                if note not in noted:
                    noted.add(note)
                    output.say(note)
            time.sleep(WATCH_SECONDS)
        output.say(f"run {record.id} {live.snapshot().state}")
    return EXIT_OK


def _print_again(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows), flush=True)
        return
    # ECMA-48: cursor to the first cell, then all below it erased. Elsewhere tables follow each other.
    print("\x1b[H\x1b[J" if sys.stdout.isatty() else "", end="" if sys.stdout.isatty() else "\n")
    _print(rows)
    sys.stdout.flush()


def _of_pool(name: str | None, choice: Choice) -> tuple[list[dict[str, Any]], list[str]]:
    from rankdeck_profiles import gpu_choice
    from rankdeck_profiles.selection import select

    pool = select(library().pool(name), choice)
    with engine() as running:
        facts = wait_for(running.probe(pool, output.say))
    chosen = {node.name: gpu_choice.chosen(node, facts.get(node.name)) for node in pool.nodes}
    rows = [
        row
        for found in facts.values()
        for row in _from_facts(found)
        if (gpus := chosen[found.node]) is None or row["index"] in gpus
    ]
    notes = [
        f"{node}: no GPUs: {found.raw.get('gpu_note') or 'none found'}"
        for node, found in facts.items()
        if not found.gpus
    ]
    return rows, notes


def _of_run(name: str) -> tuple[list[dict[str, Any]], list[str]]:
    record = run_home().find(name)
    snapshot = record.snapshot()
    _check_goes_on(record.id, snapshot)
    with engine() as running:
        live = running.attach(record.id)
        version, limit = 0, time.monotonic() + SAMPLE_SECONDS
        while len(live.samples) < len(snapshot.nodes) and time.monotonic() < limit:
            version = live.wait(version, 0.2)
            if live.snapshot().state.is_terminal:
                break
        samples, snapshot = live.samples, live.snapshot()
    rows, notes = _rows(samples, snapshot)
    silent = [node.name for node in snapshot.nodes if node.name not in samples]
    return rows, [*notes, *(f"{node}: no word within {SAMPLE_SECONDS:.0f} s" for node in silent)]


def _check_goes_on(run_id: str, snapshot: RunSnapshot) -> None:
    if snapshot.state.is_terminal:
        raise GpusError(
            f"run {run_id} has ended ({snapshot.state})", "'rankdeck gpus --pool POOL' asks the nodes"
        )


def _rows(samples: Mapping[str, Sample], snapshot: RunSnapshot) -> tuple[list[dict[str, Any]], list[str]]:
    """What the nodes told last, and which of them have no GPUs."""
    rows, notes = [], []
    for node in snapshot.nodes:
        sample = samples.get(node.name)
        if sample is None:
            continue
        rows.extend(_from_sample(node.name, sample, snapshot))
        if not sample.get("gpus"):
            notes.append(f"{node.name}: no GPUs: {sample.get('gpu_note') or 'none found'}")
    return rows, notes


def _from_facts(found: NodeFacts) -> list[dict[str, Any]]:
    return [
        _row(
            found.node,
            {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "mem_total_mib": gpu.memory_mib},
        )
        for gpu in found.gpus
    ]


def _from_sample(node: str, sample: Sample, snapshot: RunSnapshot) -> list[dict[str, Any]]:
    rank_of = {rank.pid: rank for rank in snapshot.ranks if rank.node == node and rank.pid is not None}
    rows = []
    for gpu in sample.get("gpus") or ():
        ranks = [rank_of[pid] for pid in gpu.get("pids") or () if pid in rank_of]
        rank = ranks[0] if ranks else None
        row = _row(node, gpu)
        row["rank"] = None if rank is None else rank.rank
        row["state"] = None if rank is None else str(rank.state)
        rows.append(row)
    return rows


def _row(node: str, gpu: Mapping[str, Any]) -> dict[str, Any]:
    """A GPU as `gpus --json` shows it: what the driver does not give is null, never 0."""
    keys = ("index", "uuid", "name", "util", "mem_used_mib", "mem_total_mib", "temp_c", "power_w")
    return {
        "node": node,
        **{key: gpu.get(key) for key in keys},
        "rank": None,
        "state": None,
        "note": gpu.get("note"),
    }


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    def cell(key: str, unit: str = "") -> str:
        return "-" if row[key] is None else f"{row[key]}{unit}"

    memory = f"{cell('mem_used_mib')}/{cell('mem_total_mib')}"
    return (
        str(row["node"]),
        cell("index"),
        cell("name"),
        cell("util", " %"),
        memory,
        cell("temp_c", " C"),
        cell("power_w", " W"),
        cell("rank"),
    )
