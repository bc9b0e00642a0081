"""Brings a run's record up to date before it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_runs.errors import UnwrittenError
from rankdeck_tui.cli import output
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.surroundings import engine

if TYPE_CHECKING:
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RunSnapshot

SECONDS = 30.0
"""How long fetching what the record lacks may take before what is there is shown."""


def synced(record: Record, snapshot: RunSnapshot) -> bool:
    """Fetches what the record lacks from the run's nodes.

    Args:
        record: the run's record.
        snapshot: what it says now; a run of which everything is there contacts no node.

    Returns:
        Whether all that the nodes have is in the record now; if not, the person has been told.
    """
    if snapshot.complete:
        return True
    with engine() as running:
        try:
            if wait_for(running.sync(record.id, SECONDS)):
                return True
        except UnwrittenError as error:
            output.warning(f"{error}\nthis is what it holds")
            return False
    lost = [node for node in record.snapshot().nodes if node.message]
    reasons = "".join(f"\n{node.name}: {node.message}" for node in lost)
    output.warning(
        f"not every node of run {record.id} told all it has; this is what the record holds{reasons}"
    )
    return False


def latest(record: Record, *, offline: bool) -> RunSnapshot:
    """What is known of a run; unless `offline`, what the record lacks is fetched first."""
    snapshot = record.snapshot()
    if offline or snapshot.complete:
        return snapshot
    synced(record, snapshot)
    return record.snapshot()
