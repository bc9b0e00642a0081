"""What a person may want to be told of a run: its first failure, nodes that do not answer, its end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankdeck_runs.causes import Cause
from rankdeck_runs.states import NodeState, RunSnapshot, RunState

FAILURE, SILENCE, END = "failure", "silence", "end"
SILENT_SECONDS = 60.0
"""A node counts as one that does not answer after so long: a laptop that moves loses its links for less."""

CAUSE_SECONDS = 5.0
"""How long a failed run's end is kept back for its logs to tell the cause."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something to be told once."""

    kind: str
    """`failure`, `silence` or `end`."""
    run: str
    state: str
    """The run's, in a word."""
    profile: str
    message: str
    """All of it in one line; it holds what programs wrote, so it has to be cleaned before it is shown."""
    rank: int | None = None
    """The rank that failed; likewise its node, or those that do not answer."""
    node: str = ""

    def to_json(self) -> dict[str, Any]:
        """What a webhook gets; `text` is what chat services show."""
        return {
            "text": self.message,
            "event": self.kind,
            "run": self.run,
            "state": self.state,
            "profile": self.profile,
            "rank": self.rank,
            "node": self.node,
        }


class Occasions:
    """Finds what is new in a run's snapshots, and tells each thing once.

    Args:
        known: what the person has seen already; None: nothing, the run has just been launched.
    """

    def __init__(self, known: RunSnapshot | None = None) -> None:
        self._failed = known is not None and known.cause is not None
        self._ended = known is not None and known.state.is_terminal
        self._over_since: float | None = None
        self._silent_since: dict[str, float] = {}
        self._silence_told = False

    @property
    def ended(self) -> bool:
        """Whether the end was told, or known before: nothing more will be."""
        return self._ended

    def take(self, snapshot: RunSnapshot, now: float, *, last: bool = False) -> list[Occasion]:
        """What is to be told.

        Args:
            snapshot: the run now.
            now: seconds of any clock that only goes forward.
            last: nobody will look again.
        """
        if self._ended:
            return []
        if snapshot.state.is_terminal:
            if self._over_since is None:
                self._over_since = now
            explained = snapshot.complete or snapshot.state is not RunState.FAILED
            if not explained and not last and now - self._over_since < CAUSE_SECONDS:
                return []
            self._ended = True
            return [_end(snapshot)]
        found = []
        if snapshot.cause is not None and not self._failed:
            self._failed = True
            found.append(_failure(snapshot, snapshot.cause))
        silent = self._silent(snapshot, now)
        if silent and not self._silence_told:
            found.append(_silence(snapshot, silent))
        self._silence_told = bool(silent)
        return found

    def _silent(self, snapshot: RunSnapshot, now: float) -> list[str]:
        lost = [node.name for node in snapshot.nodes if node.state is NodeState.LOST]
        self._silent_since = {node: self._silent_since.get(node, now) for node in lost}
        return [node for node, since in self._silent_since.items() if now - since >= SILENT_SECONDS]


def _end(snapshot: RunSnapshot) -> Occasion:
    cause = snapshot.cause
    why = (
        ""
        if cause is None or snapshot.state is not RunState.FAILED
        else f": {_where(cause)}: {cause.message}"
    )
    return _occasion(
        END,
        snapshot,
        f"{snapshot.state}{why}",
        None if cause is None else cause.rank,
        "" if cause is None else cause.node,
    )


def _failure(snapshot: RunSnapshot, cause: Cause) -> Occasion:
    return _occasion(FAILURE, snapshot, f"{_where(cause)}: {cause.message}", cause.rank, cause.node)


def _silence(snapshot: RunSnapshot, nodes: list[str]) -> Occasion:
    verb = "does" if len(nodes) == 1 else "do"
    return _occasion(SILENCE, snapshot, f"{', '.join(nodes)} {verb} not answer", None, ", ".join(nodes))


def _where(cause: Cause) -> str:
    return cause.node if cause.rank is None else f"rank {cause.rank} on {cause.node}"


def _occasion(kind: str, snapshot: RunSnapshot, said: str, rank: int | None, node: str) -> Occasion:
    # It begins with a word of ours: a command gets it as an argument, which must not look like an option.
    message = f"run {snapshot.profile or snapshot.id} {said}"
    return Occasion(kind, snapshot.id, str(snapshot.state), snapshot.profile, message, rank, node)
