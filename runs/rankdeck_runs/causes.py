"""Why a run failed, as it is told: the first failure, what it means, and where that is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rankdeck_runs.values import integer, integers, objects, strings, text


class CauseKind(StrEnum):
    """What sort of first failure ended a run."""

    EXIT = "exit"
    """A rank ended with a status other than 0."""
    SIGNAL = "signal"
    """A signal that we did not send ended a rank."""
    START = "start"
    """A program could not be started on a node."""
    SETUP = "setup"
    """A line of the profile's `setup` failed on a node."""
    LAUNCHER = "launcher"
    """A launcher failed, and no rank of it did."""
    UNKNOWN = "unknown"
    """A rank is gone, and its exit status is not to be had."""
    NODE = "node"
    """A node refused its start, could not be reached for it, was not ready in time, or was lost."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Where a claim is to be read."""

    text: str
    """The line itself, or what a node saw (a counter of its kernel, say)."""
    log: str = ""
    """Name of the file in the record's `logs/`; empty where it stands in no log."""
    offset: int | None = None
    """Of the line's first byte in that log."""
    rank: int | None = None
    """Whose log it is; None: a launcher's, or none."""
    stream: str = ""
    """`out` or `err`."""

    @property
    def place(self) -> str:
        """File and byte, for people; empty where it stands in no log."""
        return f"logs/{self.log}, byte {self.offset}" if self.log and self.offset is not None else ""

    def to_json(self) -> dict[str, Any]:
        """The entry in `proofs`."""
        return {
            "text": self.text,
            "log": self.log,
            "offset": self.offset,
            "rank": self.rank,
            "stream": self.stream,
        }


@dataclass(frozen=True, slots=True)
class Followers:
    """Ranks that ended because of the cause, all in the same way."""

    ranks: tuple[int, ...]
    said: str
    """How they ended, in words."""

    def to_json(self) -> dict[str, Any]:
        """The entry in `followers`."""
        return {"ranks": list(self.ranks), "said": self.said}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run failed: its first failure."""

    rank: int | None
    """None where no rank was involved."""
    node: str
    kind: CauseKind
    message: str
    """The failing rank's own last error line where it wrote one."""
    evidence: tuple[str, ...] = ()
    """Lines that show it: the end of the error log, the exit status."""
    reason: str = ""
    """What sort of trouble it is, one word of `judging.patterns` and `judging.ends`; `unknown` where the logs
    do not tell; empty while nobody has looked."""
    said: str = ""
    """That sort in words, and what may be done about it."""
    proofs: tuple[Proof, ...] = ()
    """Where it is written, the telling line first."""
    followers: tuple[Followers, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The `cause` of `show --json`."""
        return {
            "rank": self.rank,
            "node": self.node,
            "kind": str(self.kind),
            "message": self.message,
            "evidence": list(self.evidence),
            "reason": self.reason,
            "said": self.said,
            "proofs": [proof.to_json() for proof in self.proofs],
            "followers": [group.to_json() for group in self.followers],
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Cause | None:
        """The same back; None if it is of no kind that is known. What is damaged in it is left out."""
        try:
            kind = CauseKind(text(shape, "kind"))
        except ValueError:
            return None
        proofs = (
            Proof(
                text(proof, "text"),
                text(proof, "log"),
                integer(proof, "offset"),
                integer(proof, "rank"),
                text(proof, "stream"),
            )
            for proof in objects(shape, "proofs")
        )
        followers = (
            Followers(tuple(integers(group, "ranks")), text(group, "said"))
            for group in objects(shape, "followers")
        )
        return cls(
            integer(shape, "rank"),
            text(shape, "node"),
            kind,
            text(shape, "message"),
            tuple(strings(shape, "evidence")),
            text(shape, "reason"),
            text(shape, "said"),
            tuple(proofs),
            tuple(followers),
        )


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A start of all ranks by their launcher that is over, and why the next one began."""

    attempt: int
    """From 1."""
    cause: Cause | None = None
    """Its first failure; None where none was seen (a node has left)."""

    @property
    def text(self) -> str:
        """What ended it, in words."""
        if self.cause is None:
            return f"attempt {self.attempt} ended: a node joined anew"
        return f"attempt {self.attempt} ended: {self.cause.message} ({self.cause.node})"

    def to_json(self) -> dict[str, Any]:
        """The entry in `earlier_attempts` of `show --json`."""
        return {"attempt": self.attempt, "cause": self.cause.to_json() if self.cause else None}
