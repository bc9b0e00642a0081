"""What of a run's logs is in the record, what is missing and why, and how much room the record takes.

A node's logs are copied while the run goes on, or at its end. Once the node has ended, size and SHA-256 of
every log are asked of it and compared with the copy: only then a log counts as verified.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rankdeck_runs import layout

if TYPE_CHECKING:
    from rankdeck_runs.states import NodeStatus, RankStatus, RunSnapshot


@dataclass(frozen=True, slots=True)
class NodeCopy:
    """What the record's events say of one node's logs."""

    shared: bool = False
    """The node's ranks wrote straight into the record: there is nothing to copy."""
    fetched: bool = False
    """All that the node had was brought."""
    files: int = 0
    """Logs that the node had."""
    size: int = 0
    """Their bytes."""
    unverified: tuple[str, ...] = ()
    """Names of logs whose copies were not proven to be the node's; those of an old record are not listed."""
    verified: bool = False
    """All copies were compared with the node's, by size and SHA-256."""
    gone: str = ""
    """Why the node has nothing of the run (any more); empty: it has, as far as known."""
    cleared: bool = False
    """The run's folder was removed from the node."""


NOTHING_COPIED = NodeCopy()


class CopyState(StrEnum):
    """Where one node's logs are."""

    SHARED = "shared"
    """In the record since they were written."""
    COLLECTED = "collected"
    MISSING = "missing"
    """Not all is in the record yet; `rankdeck collect` asks for the rest."""
    LOST = "lost"
    """Not all is in the record, and the node no longer has the rest."""


@dataclass(frozen=True, slots=True)
class NodeCollection:
    """The logs of one node, in the record and out of it."""

    node: str
    state: CopyState
    copy: NodeCopy
    missing: int | None = 0
    """Bytes that are not in the record; None: some, it is not known how many."""
    why: str = ""
    """Why they are not there."""

    @property
    def text(self) -> str:
        """What is missing, in words; empty if nothing is."""
        if self.state in (CopyState.SHARED, CopyState.COLLECTED):
            return ""
        how_many = "an unknown number of bytes" if self.missing is None else f"{self.missing:,} bytes"
        lost = "lost with" if self.state is CopyState.LOST else "missing on"
        return f"{how_many} {lost} {self.node}" + (f" ({self.why})" if self.why else "")

    @property
    def can_leave_node(self) -> bool:
        """Whether the node's folder of the run may go without a loss, and is there."""
        kept = self.state is CopyState.SHARED or (self.state is CopyState.COLLECTED and self.copy.verified)
        return kept and not self.copy.cleared

    def to_json(self) -> dict[str, Any]:
        """The node's entry in `collection` of `show --json`."""
        return {
            "node": self.node,
            "state": str(self.state),
            "files": self.copy.files,
            "bytes": self.copy.size,
            "verified": self.copy.verified,
            "unverified": list(self.copy.unverified),
            "missing_bytes": self.missing,
            "why": self.why,
            "removed_from_node": self.copy.cleared,
        }


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a run on this machine."""

    disk: int
    """Bytes of all files of the record but its summary, which tells of this."""
    nodes: tuple[NodeCollection, ...]

    @property
    def state(self) -> CopyState:
        """The worst of its nodes'."""
        states = {node.state for node in self.nodes}
        for state in (CopyState.LOST, CopyState.MISSING, CopyState.COLLECTED):
            if state in states:
                return state
        return CopyState.SHARED

    @property
    def lacks(self) -> str:
        """What is missing on which nodes and why, in words; empty if nothing is."""
        return "; ".join(node.text for node in self.nodes if node.text)

    def to_json(self) -> dict[str, Any]:
        """What `show --json` has beside the snapshot."""
        return {"disk_bytes": self.disk, "collection": [node.to_json() for node in self.nodes]}


def of_run(snapshot: RunSnapshot, sizes: Mapping[str, int]) -> tuple[NodeCollection, ...]:
    """Where every node's logs are. Pure.

    Args:
        snapshot: what is known of the run.
        sizes: bytes of each rank's log in the record, by the agent's name for it (`Record.log_sizes`).
    """
    return tuple(_of_node(node, snapshot, sizes) for node in snapshot.nodes)


def _of_node(node: NodeStatus, snapshot: RunSnapshot, sizes: Mapping[str, int]) -> NodeCollection:
    copy = node.copy
    if copy.shared:
        return NodeCollection(node.name, CopyState.SHARED, copy)
    missing = _missing(node, snapshot, sizes)
    if copy.fetched and (missing == 0 or (missing is None and not copy.gone)):
        return NodeCollection(node.name, CopyState.COLLECTED, copy)
    if copy.fetched:
        why = copy.gone or "the node's own logs are shorter, too"
        return NodeCollection(node.name, CopyState.LOST, copy, missing, why)
    # Of a launcher's output, and of what is being written, only the node knows how much there is.
    how_many = missing if missing and node.state.is_terminal else None
    return NodeCollection(node.name, CopyState.MISSING, copy, how_many, node.message or _not_asked(node))


def _not_asked(node: NodeStatus) -> str:
    return "not asked since it ended" if node.state.is_terminal else f"last seen {node.state}"


def _missing(node: NodeStatus, snapshot: RunSnapshot, sizes: Mapping[str, int]) -> int | None:
    """Bytes that the node's ranks are known to have written and the record lacks; None: not known."""
    missing = 0
    for rank in snapshot.ranks:
        for past in (*rank.earlier, rank):
            if past.node == node.name and past.started is not None:
                lacking = _lacking(past, sizes)
                if lacking is None:
                    return None
                missing += lacking
    return missing


def _lacking(rank: RankStatus, sizes: Mapping[str, int]) -> int | None:
    lacking = 0
    for stream, size in (("out", rank.out_bytes), ("err", rank.err_bytes)):
        if size is None:
            return None
        lacking += max(0, size - sizes.get(layout.log_name(rank.rank, stream, rank.attempt), 0))
    return lacking


def disk_use(folder: str | os.PathLike[str]) -> int:
    """Bytes of all files of a record but its summary; what can't be read counts as nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += 0 if name.startswith(layout.SUMMARY) else os.lstat(os.path.join(where, name)).st_size
            except OSError:
                continue
    return total
