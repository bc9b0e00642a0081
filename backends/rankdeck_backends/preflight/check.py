"""A check: what it reads, its rule, why it matters, and the functions that apply it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rankdeck_backends.preflight.finding import Outcome
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool


class Group(StrEnum):
    """What a check is about; the matrix has a column for each."""

    FABRIC = "fabric"
    OFED = "OFED and modules"
    GPUDIRECT = "GPUDirect"
    GPU = "GPU"
    SOFTWARE = "software"
    WIRING = "SSH and MPI"
    SOCKETS = "sockets and rendezvous"
    FILES = "files"
    LIMITS = "limits"
    CLOCK = "clock"
    ACTIVE = "active tests"


class Scope(StrEnum):
    """How many nodes' readings a verdict needs."""

    NODE = "node"
    PAIR = "pair"
    POOL = "pool"
    NODE_AND_POOL = "node and pool"


NodeRule = Callable[[ProbedNode, ProbedPool], Outcome]
"""Judges one node; the pool is there to compare it with, and for what is to be run."""

PoolRule = Callable[[ProbedPool], Outcome]
"""Judges the pool as a whole: called for pools of two nodes and more."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. The words are what `rankdeck check --explain ID` prints.

    One without functions is an active test: what pairs of nodes come to is judged where they are run.
    """

    id: str
    group: Group
    title: str
    """What is asked, in a few words: a column's heading."""
    reads: str
    """The paths and commands."""
    rule: str
    """When it passes, warns, fails and is skipped."""
    symptom: str
    """What a person sees in the run when it is wrong and nobody checked."""
    fix: str
    """What to do, where the finding has nothing more precise."""
    source: str
    """Where rule and symptom are known from: project and document or issue."""
    node: NodeRule | None = None
    pool: PoolRule | None = None
    pair: bool = False
    """True: the pool's rule looks at pairs of nodes."""
    explained_by: tuple[str, ...] = ()
    """Checks whose fail on the same node is the cause of this one's: told once, the first that is there."""
    handled_by: tuple[str, ...] = ()
    """Variables that, where they are set on all nodes concerned, make a fail of this harmless."""

    @property
    def scope(self) -> Scope:
        """How many nodes' readings a verdict needs."""
        if self.node is not None and self.pool is not None:
            return Scope.NODE_AND_POOL
        if self.pair:
            return Scope.PAIR
        return Scope.POOL if self.node is None else Scope.NODE
