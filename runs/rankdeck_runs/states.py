"""What a run is known to be: states as enums, and one frozen snapshot of everything.

The shape of `RunSnapshot.to_json` is the promise behind `rankdeck show --json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rankdeck_runs.causes import Cause, PastAttempt
from rankdeck_runs.collection import NOTHING_COPIED, NodeCopy
from rankdeck_runs.transport import Fabric, Transport


class RunState(StrEnum):
    """What a whole run is known to be."""

    CHECKING = "checking"
    """Recorded; its nodes are still being looked at."""
    STARTING = "starting"
    """Starts were asked for; not every rank has begun."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Somebody asked for the end, or a rank failed; ranks are still ending."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Ended because a person asked for it."""
    LOST = "lost"
    """None of the nodes that still hold ranks can be reached: the run may well go on there."""
    UNKNOWN = "unknown"
    """It is over, and how a rank ended is not to be had."""

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more will happen."""
        return self in _RUN_TERMINAL

    @property
    def goes_on(self) -> bool:
        """Whether it was seen to go on: neither over nor out of reach."""
        return not self.is_terminal and self is not RunState.LOST


class NodeState(StrEnum):
    """What one node's share of a run is known to be."""

    WAITING = "waiting"
    """Nothing was asked of it yet."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    """It can't be reached right now; so its ranks that had not ended are lost, too."""
    UNKNOWN = "unknown"
    """It was reached, and knows nothing (any more) of this run."""

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more will happen on it."""
        return self in _NODE_TERMINAL


class RankState(StrEnum):
    """What one rank is known to be."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It ended because we, or its own launcher after another rank's failure, asked it to."""
    LOST = "lost"
    """It had not ended when its node was last heard of, which can't be reached or forgot the run."""
    UNKNOWN = "unknown"
    """It is gone, and its exit status is not to be had."""

    @property
    def is_terminal(self) -> bool:
        """Whether the rank is known to be over."""
        return self not in (RankState.WAITING, RankState.RUNNING, RankState.LOST)


_RUN_TERMINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.UNKNOWN})
_NODE_TERMINAL = frozenset({NodeState.SUCCEEDED, NodeState.FAILED, NodeState.STOPPED, NodeState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class RankStatus:
    """One rank. Times are unix seconds on its node's clock."""

    rank: int
    node: str
    """Empty where its launcher deals out the ranks, and has not told yet."""
    local_rank: int
    state: RankState = RankState.WAITING
    pid: int | None = None
    exit_code: int | None = None
    """None while unknown, and for a rank that a signal ended."""
    signal: str | None = None
    """Name without SIG of the signal that ended it."""
    started: float | None = None
    ended: float | None = None
    out_bytes: int | None = None
    err_bytes: int | None = None
    why: str = ""
    """Why it is unknown, lost, was never started, or is being stopped; else empty."""
    attempt: int = 1
    """Which start by its launcher this is: torchrun may start all ranks again after one has failed."""
    earlier: tuple[RankStatus, ...] = ()
    """The same rank in the attempts before, oldest first."""
    planned: str = ""
    """The node that the plan has it on."""
    transports: tuple[Transport, ...] = ()
    """The networks that its libraries named in its log: one a library."""

    def to_json(self) -> dict[str, Any]:
        """The rank's entry in `show --json`."""
        return {
            "rank": self.rank,
            "node": self.node or None,
            "local_rank": self.local_rank,
            "state": str(self.state),
            "pid": self.pid,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "started": iso(self.started),
            "ended": iso(self.ended),
            "out_bytes": self.out_bytes,
            "err_bytes": self.err_bytes,
            "why": self.why,
            "attempt": self.attempt,
            "earlier": [past.to_json() for past in self.earlier],
            "transports": [transport.to_json() for transport in self.transports],
        }


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node of the run."""

    name: str
    node_rank: int
    address: str
    state: NodeState = NodeState.WAITING
    ranks: tuple[int, ...] = ()
    message: str = ""
    """Why it failed to start, can't be reached, or is waited for; else empty."""
    awaited: float | None = None
    """Since when the other nodes' ranks have waited for it to be ready, by the login side's clock; None: they
    do not."""
    copy: NodeCopy = NOTHING_COPIED
    """What of its logs was brought."""
    kill_at: float | None = None
    """When what is left of its ranks gets SIGKILL, by our clock; None: it is not being stopped."""
    unguarded: bool = False
    """Its supervisor is gone while the run goes on, and no other one has taken over yet."""

    def to_json(self) -> dict[str, Any]:
        """The node's entry in `show --json`."""
        return {
            "name": self.name,
            "node_rank": self.node_rank,
            "address": self.address,
            "state": str(self.state),
            "ranks": list(self.ranks),
            "message": self.message,
            "awaited": iso(self.awaited),
            "kill_at": iso(self.kill_at),
            "unguarded": self.unguarded,
        }


@dataclass(frozen=True, slots=True)
class LauncherStatus:
    """A launcher (torchrun, mpirun) that starts ranks."""

    node: str
    process: int
    """Its index among the node's processes in the plan."""
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    ended: bool = False
    """Whether it has ended: its exit may not be known (its node's supervisor was killed)."""
    message: str = ""
    out_log: str = ""
    """Name of its output's file in the record's `logs/`; likewise `err_log`."""
    err_log: str = ""

    def to_json(self) -> dict[str, Any]:
        """The launcher's entry in `show --json`."""
        return {
            "node": self.node,
            "process": self.process,
            "pid": self.pid,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "ended": self.ended,
            "message": self.message,
            "out_log": self.out_log,
            "err_log": self.err_log,
        }


@dataclass(frozen=True, slots=True)
class SweptProcess:
    """A process of the run that was in no rank's group, ended at the stop."""

    node: str
    pid: int
    cmd: str
    rank: int | None = None
    """The rank that it came from, as far as known."""
    why: str = ""
    """Of one that could not be ended: its state, and where in the kernel it sleeps."""

    def to_json(self) -> dict[str, Any]:
        """The entry in `swept` of `show --json`."""
        return {"node": self.node, "pid": self.pid, "cmd": self.cmd, "rank": self.rank}


@dataclass(frozen=True, slots=True)
class Timing:
    """When things happened: unix seconds, None while they have not."""

    created: float | None = None
    start_asked: float | None = None
    """The first start was sent to a node."""
    started: float | None = None
    """The first rank began."""
    all_started: float | None = None
    """The last rank began."""
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Everything known of a run at one moment."""

    id: str
    state: RunState
    profile: str
    framework: str
    pool: str
    backend: str
    world_size: int
    nodes: tuple[NodeStatus, ...] = ()
    """By node rank."""
    ranks: tuple[RankStatus, ...] = ()
    """By rank: `ranks[3].rank == 3`."""
    launchers: tuple[LauncherStatus, ...] = ()
    cause: Cause | None = None
    attempt: int = 1
    """Which start of the ranks by their launcher this is."""
    attempts: int = 1
    """How many there may be if one node alone fails; with several, torchrun counts each node's failures."""
    earlier_attempts: tuple[PastAttempt, ...] = ()
    swept: tuple[SweptProcess, ...] = ()
    timing: Timing = Timing()
    complete: bool = False
    """Every node has ended and every byte they wrote is in the record."""
    notes: tuple[str, ...] = ()
    """Trouble that ended nothing: a full disk on a node, a signal that had to be KILL."""
    counts: Mapping[RankState, int] = field(default_factory=dict)
    """How many ranks are in each state; states without ranks are left out."""
    fabric: Fabric | None = None
    """What the nodes had for data before the start; None: none that all can use, or one node alone."""
    fabric_unused: str = ""
    """In one line: its ranks send over sockets although there is a fabric. Empty: not as far as known."""
    active_test: bool = False
    """True: preflight's own, in which a pair of nodes sends; nobody's training."""

    @property
    def attempt_text(self) -> str:
        """`attempt 2 of 4`; empty for a run whose ranks are started only once."""
        if self.attempts == 1 and self.attempt == 1:
            return ""
        # Each node's torchrun counts its own failures, so that there may be more than one of them allows.
        return f"attempt {self.attempt}" + (f" of {self.attempts}" if self.attempt <= self.attempts else "")

    @property
    def kill_at(self) -> float | None:
        """When the last of its ranks get SIGKILL, by our clock; None: nothing is being stopped."""
        return max((node.kill_at for node in self.nodes if node.kill_at is not None), default=None)

    @property
    def exit_status(self) -> int:
        """The status `rankdeck run` ends with: 0 only for a run that succeeded."""
        return 0 if self.state is RunState.SUCCEEDED else 1

    def to_json(self) -> dict[str, Any]:
        """The document of `rankdeck show --json`."""
        return {
            "id": self.id,
            "state": str(self.state),
            "profile": self.profile,
            "framework": self.framework,
            "pool": self.pool,
            "backend": self.backend,
            "active_test": self.active_test,
            "created": iso(self.timing.created),
            "started": iso(self.timing.started),
            "ended": iso(self.timing.ended),
            "world_size": self.world_size,
            "nodes": [node.to_json() for node in self.nodes],
            "ranks": [rank.to_json() for rank in self.ranks],
            "launchers": [launcher.to_json() for launcher in self.launchers],
            "cause": self.cause.to_json() if self.cause else None,
            "attempt": self.attempt,
            "attempts": self.attempts,
            "earlier_attempts": [past.to_json() for past in self.earlier_attempts],
            "swept": [process.to_json() for process in self.swept],
            "complete": self.complete,
            "notes": list(self.notes),
            "fabric": self.fabric.to_json() if self.fabric else None,
            "fabric_unused": self.fabric_unused,
        }


def iso(seconds: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC with microseconds; None, and what no calendar holds, as None."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
