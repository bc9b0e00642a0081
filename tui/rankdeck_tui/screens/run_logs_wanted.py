"""Which log of a run is wanted: a launcher's, or the one that proves what is said of a failure. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_runs.causes import Proof
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui.logs.tiles import Stream, Target


def launcher_of(snapshot: RunSnapshot, rank: int) -> Target | None:
    """The launcher of the node that holds a rank, else the run's first; None if it has none."""
    node = snapshot.ranks[rank].node
    launchers = [entry for entry in snapshot.launchers if entry.node == node] or list(snapshot.launchers)
    return Target(node=launchers[0].node, process=launchers[0].process) if launchers else None


def proofs_of(snapshot: RunSnapshot) -> Sequence[tuple[Target, Stream, int]]:
    """The places in logs where a failure's cause is written: whose log, which stream, which byte."""
    cause = snapshot.cause
    found = [] if cause is None else [(_target(proof, snapshot), proof) for proof in cause.proofs]
    return [
        (target, Stream.OUT if proof.stream == "out" else Stream.ERR, proof.offset)
        for target, proof in found
        if target is not None and proof.offset is not None
    ]


def last_words_of(snapshot: RunSnapshot) -> tuple[Target, Stream] | None:
    """The one log to look at first after a failure: the one its cause is written in, else the failed rank's.

    Returns:
        Whose log and which stream; None where nothing failed, or no log tells of it.
    """
    cause = snapshot.cause
    if cause is None:
        return None
    for target, stream, _ in proofs_of(snapshot):
        if cause.rank is None or target.rank == cause.rank:
            return target, stream
    if cause.rank is None:
        return None
    said = snapshot.ranks[cause.rank].err_bytes if cause.rank < len(snapshot.ranks) else 0
    return Target(cause.rank), Stream.ERR if said else Stream.OUT


def _target(proof: Proof, snapshot: RunSnapshot) -> Target | None:
    if proof.rank is not None:
        return Target(proof.rank)
    for launcher in snapshot.launchers:
        if proof.log in (launcher.err_log, launcher.out_log):
            return Target(node=launcher.node, process=launcher.process)
    return None
