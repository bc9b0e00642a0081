"""What a fold has gathered so far: plain mutable data, owned by one `Fold`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankdeck_runs import layout
from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.collection import NOTHING_COPIED, NodeCopy
from rankdeck_runs.failures import SKEW_THAT_COUNTS, Failure, Named
from rankdeck_runs.states import LauncherStatus, NodeState, RankStatus, SweptProcess
from rankdeck_runs.transport import Fabric
from rankdeck_runs.values import integer, integers, number, objects, text

MOST_ATTEMPTS = 1000
"""Later ones are not told apart: a damaged event may name any number, and what was before each is kept."""


@dataclass(slots=True)
class FoldedNode:
    """What has been seen of one node."""

    name: str
    node_rank: int
    address: str
    ranks: tuple[int, ...]
    dealt: int = 0
    """How many ranks its launcher deals out; 0 where they are known before the start, as `ranks`."""
    here: set[int] = field(default_factory=set)
    """The ranks that have been on it in the newest attempt."""
    gave_up: bool = False
    """A launcher on it has ended with a failure."""
    asked: bool = False
    """Its start was sent."""
    refused: str | None = None
    """Why it did not start."""
    called_off: bool = False
    """The launch was called off before it was asked."""
    missing: str | None = None
    """Why it knows nothing of the run."""
    link_lost: str | None = None
    """Why it can't be reached."""
    stopping: bool = False
    kill_at: float | None = None
    """When its grace is over, by our clock, while it stops."""
    forced: bool = False
    """Its stop left no grace."""
    told_to_stop: bool = False
    """It stops for another reason than that its launcher has gone."""
    awaited: tuple[str, float] | None = None
    """The others wait for it to start their ranks: why, and since when."""
    unheard: dict[str, str] = field(default_factory=dict)
    """Which nodes do not hear of it over the links between supervisors, and what is said of that."""
    unguarded: bool = False
    """Its supervisor is gone, and its ranks may run on."""
    ended: NodeState | None = None
    ended_at: float | None = None
    copy: NodeCopy = NOTHING_COPIED
    skew: float = 0.0
    """Seconds its clock is ahead of ours."""
    contiguous: int = 0
    """Every event up to this number has been seen."""
    ahead: set[int] = field(default_factory=set)
    """Numbers seen beyond a gap."""

    def take(self, seq: int) -> bool:
        """Note an event's number; False if it was seen before."""
        if seq <= self.contiguous or seq in self.ahead:
            return False
        self.ahead.add(seq)
        while self.contiguous + 1 in self.ahead:
            self.contiguous += 1
            self.ahead.discard(self.contiguous)
        return True

    def by_our_clock(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its event with the time that the login side's clock showed then."""
        t = number(event, "t")
        if t is None or abs(self.skew) <= SKEW_THAT_COUNTS:
            return event
        return {**event, "t": t - self.skew}


@dataclass(slots=True)
class Folded:
    """What has been seen of a run."""

    run_id: str
    profile: str = ""
    framework: str = ""
    pool: str = ""
    backend: str = ""
    active_test: bool = False
    nodes: dict[str, FoldedNode] = field(default_factory=dict)
    ranks: dict[int, RankStatus] = field(default_factory=dict)
    launchers: dict[tuple[str, int], LauncherStatus] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    swept: dict[tuple[str, int], SweptProcess] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    attempt: int = 1
    """The newest start of the ranks by their launchers."""
    attempts: int = 1
    """How many there may be on one node."""
    created: float | None = None
    first_started: float | None = None
    """When the first rank began, in whichever attempt."""
    start_asked: float | None = None
    stop_asked: float | None = None
    """When a person asked for the stop."""
    stopping: bool = False
    """A stop was asked for, by whomever, and has not been given up."""
    complete: bool = False
    named: Named | None = None
    """What the head node named as the reason to stop all ranks."""
    found: Cause | None = None
    """The cause as the logs told it."""
    found_about: tuple[str, str, int | None] | None = None
    """Node, kind and rank of the failure that was the first when it was found: the logs may name another."""
    fabric: Fabric | None = None
    fabric_unused: str = ""

    def rank(self, number: int, attempt: int) -> RankStatus | None:
        """A rank as it was or is in an attempt; a newer attempt than any before begins with this."""
        if number not in self.ranks:
            return None
        self.reach(attempt)
        known = self.ranks[number]
        if attempt == known.attempt:
            return known
        return next((past for past in known.earlier if past.attempt == attempt), None)

    def put(self, status: RankStatus) -> None:
        """Replace what is known of a rank in `status.attempt`."""
        known = self.ranks[status.rank]
        if status.attempt == known.attempt:
            self.ranks[status.rank] = status
            if (node := self.nodes.get(status.node)) is not None:
                node.here.add(status.rank)
            return
        past = tuple(status if p.attempt == status.attempt else p for p in known.earlier)
        self.ranks[status.rank] = replace(known, earlier=past)

    def reach(self, attempt: int) -> None:
        """An attempt has begun, somewhere: all ranks wait for theirs, and those dealt out have no node."""
        if not self.attempt < attempt <= MOST_ATTEMPTS:
            return
        self.attempt = attempt
        for node in self.nodes.values():
            node.here.clear()
        for known in list(self.ranks.values()):
            planned = self.nodes.get(known.planned)
            self.ranks[known.rank] = RankStatus(
                known.rank,
                "" if planned is not None and planned.dealt else known.planned,
                known.local_rank,
                attempt=attempt,
                planned=known.planned,
                earlier=(*known.earlier, replace(known, earlier=())),
            )

    def ranks_of(self, node: FoldedNode) -> tuple[int, ...]:
        """The ranks that are on a node, as far as known."""
        if not node.dealt:
            return node.ranks
        return tuple(sorted(node.here))

    def stopping_anywhere(self) -> bool:
        """Whether a stop is under way on any node."""
        return self.stopping or any(node.stopping for node in self.nodes.values())

    def fail(
        self, node: FoldedNode, event: Mapping[str, Any], kind: CauseKind, message: str, **more: Any
    ) -> None:
        """Note a failure that the node's event tells of."""
        self.failures.append(Failure(number(event, "t") or 0.0, node.name, kind, message, **more))


def from_plan(run_id: str, plan: Mapping[str, Any]) -> Folded:
    """The beginning: every node and rank of the plan, nothing known of any.

    Args:
        run_id: the run's id.
        plan: `LaunchPlan.to_json()`; what is damaged in it is left out, nothing is made up.
    """
    state = Folded(run_id, framework=text(plan, "framework"))
    for node in objects(plan, "nodes"):
        _add_node(state, node)
    return state


def _add_node(state: Folded, node: Mapping[str, Any]) -> None:
    name, node_rank = text(node, "node"), integer(node, "node_rank")
    if node_rank is None:
        return
    ranks = tuple(integers(node, "ranks"))
    dealt = any(process.get("fixed_ranks") is False for process in objects(node, "processes"))
    local: dict[int, int] = {}
    for index, process in enumerate(objects(node, "processes")):
        local.update(zip(integers(process, "ranks"), integers(process, "local_ranks"), strict=False))
        state.attempts = max(state.attempts, 1 + max(0, integer(process, "restarts") or 0))
        if integer(process, "launcher_args"):
            state.launchers[name, index] = LauncherStatus(
                name,
                index,
                out_log=layout.launcher_log(node_rank, index, "out"),
                err_log=layout.launcher_log(node_rank, index, "err"),
            )
    # A node whose ranks another node's mpirun starts has no process. A record of before has only processes'.
    local.update(zip(ranks, integers(node, "local_ranks"), strict=False))
    state.nodes[name] = FoldedNode(
        name, node_rank, text(node, "address"), ranks, dealt=len(ranks) if dealt else 0
    )
    for rank in ranks:
        where = "" if dealt else name
        state.ranks[rank] = RankStatus(rank, where, local.get(rank, 0), planned=name)
