"""Removing a run: its folders on the nodes, then its record. Neither comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdeck_backends.base import NodeRefusal
from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import events
from rankdeck_runs.errors import without_node
from rankdeck_runs.gathering import from_all
from rankdeck_runs.home import REMOVED
from rankdeck_runs.links import Links
from rankdeck_runs.record import Record
from rankdeck_runs.states import NodeState, RunSnapshot
from rankdeck_runs.targets import Target, another_machine, read_targets, run_folder
from rankdeck_runs.values import integer


class RemoveError(RankdeckError):
    """A run is not removed: it goes on, or may."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What became of a run's folders on its nodes."""

    freed: Mapping[str, int]
    """Node -> bytes that were removed there; 0 where nothing was."""
    left: Mapping[str, str]
    """Node -> why its folder is still there, and which one that is."""
    busy: tuple[str, ...] = ()
    """Of those, the nodes that say that something of the run goes on."""

    def to_json(self) -> dict[str, Any]:
        """What --json says of it."""
        return {"freed": dict(self.freed), "left": dict(self.left)}


async def clear_verified(links: Links, record: Record) -> Cleared:
    """Remove the run's folder from each node whose logs are all in the record, and verified. See `Engine`."""
    known = {node.node: node for node in record.kept(record.snapshot()).nodes}
    return await _clear(links, record, lambda name: known[name].can_leave_node)


async def remove_run(links: Links, record: Record) -> Cleared:
    """Remove a run that has ended (`check_ended`). See `Engine.remove`.

    Raises:
        RemoveError: a node says that something of it goes on.
        OSError: the record can't be removed.
    """
    copies = {node.name: node.copy for node in record.snapshot().nodes}
    cleared = await _clear(links, record, lambda name: not copies[name].cleared)
    if cleared.busy:
        said = "; ".join(f"{node}: {cleared.left[node]}" for node in cleared.busy)
        raise RemoveError(
            f"the record of run {record.id} stays: {said}", f"`rankdeck stop {record.id}` ends what is left"
        )
    await asyncio.to_thread(_remove_record, record)
    return cleared


def check_ended(record: Record) -> None:
    """Raise RemoveError for a run that goes on, or of which nobody knows whether it does."""
    if why := goes_on(record.snapshot()):
        raise RemoveError(
            f"run {record.id} is not removed: {why}",
            f"`rankdeck show {record.id}` asks its nodes, `rankdeck stop {record.id}` ends it",
        )


def goes_on(snapshot: RunSnapshot) -> str:
    """Why a run may not be removed: it goes on, or nobody knows; empty if it has ended everywhere."""
    if not snapshot.nodes:
        return "its record is damaged: it does not say which nodes it was on"
    if not snapshot.state.is_terminal:
        return f"it is not known to have ended (last seen {snapshot.state})"
    for node in snapshot.nodes:
        if node.state is NodeState.LOST or not node.state.is_terminal:
            return f"{node.name} is not known to have ended: {node.message or node.state}"
    return ""


async def _clear(links: Links, record: Record, wanted: Callable[[str], bool]) -> Cleared:
    """Remove the run's folder from its nodes, all at once.

    Each refuses while anything of the run goes on there.
    """
    recorded = read_targets(record)
    targets = [target for target in recorded.nodes if target.asked is not None and wanted(target.name)]
    backend, run_id = recorded.backend, record.id

    async def one(target: Target) -> int:
        async with links.use(backend, target.node) as connection:
            folder = run_folder(target, run_id, connection)
            try:
                reply = await connection.request("remove", timeout=600.0, dir=folder, run=run_id)
            except NodeRefusal as refusal:
                if any(problem.kind != "missing" for problem in refusal.problems):
                    raise
                if wrong := another_machine(target, connection):
                    raise wrong from None
                return 0
            return integer(reply.header, "bytes") or 0

    freed, failed = await from_all({target.name: one(target) for target in targets})
    folders = {target.name: target.dir for target in targets}
    left = {}
    for node, error in failed.items():
        at = f"{folders[node]} stays there" if folders[node] else "what there is of it stays there"
        left[node] = f"{without_node(node, error.message)}; {at}"
    for node in freed:
        with contextlib.suppress(OSError):  # what is gone is gone: it would only be asked of again
            events.append(record.events_path, events.make("node_cleared", node=node))
    return Cleared(freed, left, tuple(node for node, error in failed.items() if _is_busy(error)))


def _is_busy(error: RankdeckError) -> bool:
    return isinstance(error, NodeRefusal) and any(problem.kind == "busy" for problem in error.problems)


def _remove_record(record: Record) -> None:
    """Remove a run's record from this machine; one that was begun to be removed is no run any more.

    Raises:
        OSError: it can't be removed.
    """
    aside = record.path.with_name(f"{REMOVED}{record.id}-{secrets.token_hex(4)}")
    os.rename(record.path, aside)
    shutil.rmtree(aside)


def finish_removals(runs: str) -> None:
    """Remove what a killed removal left.

    Raises:
        OSError: it can't be removed.
    """
    for entry in Path(runs).glob(f"{REMOVED}*"):
        shutil.rmtree(entry)
