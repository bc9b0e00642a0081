"""Which failure of a run was the first: the rule, as pure functions over what the fold has seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankdeck_runs.causes import Cause, CauseKind

SKEW_THAT_COUNTS = 0.5
"""Seconds. A node's clock is corrected only if it is off by more than this: the measured difference itself
is as uncertain as the time a connection takes, and nodes of one cluster normally agree far better than
that."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that failed on a node."""

    t: float
    """Unix seconds, on the login side's clock as far as the node's skew is known."""
    node: str
    kind: CauseKind
    message: str
    """One line, without knowledge of the logs."""
    rank: int | None = None
    """The rank, where one is involved."""
    signal: str = ""
    code: int | None = None
    """Its exit status, where it has one."""
    seen: tuple[tuple[str, str], ...] = ()
    """What its node saw at its end: sort (`oom`, `kernel`, `shm`) and text."""
    evidence: tuple[str, ...] = ()
    attempt: int = 1
    """Which start of the ranks by their launcher it was in."""
    may_restart: bool = False
    """The launcher may start the ranks again: then it was no failure of the run."""

    def as_cause(self) -> Cause:
        """The cause that can be told before any log was read."""
        return Cause(self.rank, self.node, self.kind, self.message, self.evidence)


@dataclass(frozen=True, slots=True)
class Named:
    """What the head node's supervisor named when it had all ranks stopped: the first failure it heard of.

    Its order is that of arrival at one place, so that no two clocks are compared.
    """

    node: str
    rank: int | None

    def is_of(self, failure: Failure) -> bool:
        """Whether it speaks of this failure."""
        return failure.node == self.node and self.rank in (None, failure.rank)


def first(
    failures: Iterable[Failure], stop_asked: float | None, named: Named | None = None
) -> Failure | None:
    """The failure that the others followed from.

    What the head node named counts, else the earliest, with two exceptions: a rank ended by SIGTERM that we
    did not send was stopped by its launcher, and a launcher fails because of its ranks; both come after any
    other failure. What failed after a person had asked for the stop is no cause at all.

    Args:
        failures: all that were seen, in any order.
        stop_asked: when a person asked for the stop, or None.
        named: what the head node named, or None.
    """
    return next(iter(ranked(failures, stop_asked, named)), None)


def ranked(
    failures: Iterable[Failure], stop_asked: float | None, named: Named | None = None
) -> list[Failure]:
    """The same, with all that came after the first in that order."""
    counted = [f for f in failures if stop_asked is None or f.t < stop_asked]
    return sorted(counted, key=lambda f: (_tier(f), *_order(f, named)))


def final(failures: Iterable[Failure], attempt: int, gave_up: bool) -> list[Failure]:
    """Those that a launcher has not made up for, and will not, by starting the ranks again.

    Args:
        failures: all that were seen, in any order.
        attempt: the newest.
        gave_up: whether a launcher has ended with a failure.
    """
    return [f for f in failures if not f.may_restart or (gave_up and f.attempt == attempt)]


def _order(failure: Failure, named: Named | None) -> tuple[bool, float, int]:
    rank = -1 if failure.rank is None else failure.rank
    return named is None or not named.is_of(failure), failure.t, rank


def _tier(failure: Failure) -> int:
    if failure.kind is CauseKind.LAUNCHER:
        return 2
    return 1 if failure.signal == "TERM" else 0
