"""The record's event file: one JSON object a line, only ever appended to.

Two kinds of lines live in it: events of a node, copied as they came, with `node` (its name) beside the
node's own `seq`; and the login side's own, which have no `seq`:

    run_created    {run, profile, framework, pool, backend, stop, fabric, active_test,
                    nodes: [{name, host, user, port, hostname}]}
    start_asked    {node}                       start_accepted {node, dir, shared}
    start_refused  {node, message, hint, unsure}  unsure: the answer never came, it may have started
    start_called_off {node}                     the launch was called off before the node was asked
    start_cut_short {}                          rankdeck was left before it had asked every node
    node_missing   {node, why, started}         node_cleared   {node}  the run's folder was removed from it
    node_fetched   {node, files: {name: [size, sha256]}, unverified: [name]}  all it had is here;
                   files is absent where the node had nothing, or ranks wrote into the record themselves
    supervisor_gone {node}                      supervisor_found {node}
    link_up        {node, skew}                 link_lost      {node, step, message}
    stop_asked     {why: asked|start_failed, signal, grace}
    stop_ended     {gone, left: [{node, pid, cmd}], unreached: [{node, message}]}
    cause_found    {about: {node, kind, rank}, ...}   a Cause's fields; about: the failure it explains
    transport_found {rank, transports}          fabric_unused  {rank, message, reasons}
    note           {node, message}              complete       {}

All have `t` (unix seconds) and `ev`; ours also `by`: which rankdeck process wrote it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rankdeck_runs.fold import Fold
from rankdeck_runs.states import RunSnapshot

LONGEST_LINE = 4 << 20
"""A line longer than this is no event: frames carry at most 1 MiB of JSON."""


WRITER = os.urandom(6).hex()
"""Tells this process's events from those of another rankdeck that follows the same run."""


def make(ev: str, **fields: Any) -> dict[str, Any]:
    """One event of the login side, stamped with the time now and with who wrote it."""
    return {"t": time.time(), "ev": ev, "by": WRITER, **fields}


def append(path: Path, event: Mapping[str, Any]) -> None:
    """Add one event: a single write at the file's end, so that two writers can't mix their lines.

    A line that a killed writer left torn is closed first, so that it can't swallow this one.

    Raises:
        OSError: the file can't be written (disk full, folder gone).
    """
    line = json.dumps(event, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(handle, line)
        if written != len(line):
            raise OSError(28, "only part of an event could be written", str(path))
    finally:
        os.close(handle)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """All events of a file, in order; torn and garbage lines are left out. No file: no events."""
    for _, event in read_from(path, 0):
        yield event


def read_from(path: Path, offset: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Events from an offset on, each with the offset behind it. A line still being written is no event.

    Args:
        path: the file.
        offset: 0, or what an earlier event came with.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            for line in file:
                offset += len(line)
                event = parse(line) if line.endswith(b"\n") else None
                if event is not None:
                    yield offset, event
    except FileNotFoundError:
        return


def parse(line: bytes) -> dict[str, Any] | None:
    """One line as an event, or None if it is none."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("ev"), str) else None


def fold(run_id: str, plan: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> RunSnapshot:
    """What is known of a run after these events. Pure; never raises, whatever the events hold.

    Args:
        run_id: the run's id.
        plan: `LaunchPlan.to_json()`, as in plan.json.
        events: as `read` gives them.
    """
    state = Fold(run_id, plan)
    for event in events:
        state.apply(event)
    return state.snapshot()
