"""Where a run's nodes are and what is to be had from each, out of its record alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import BackendKind, OnRankFailure, PoolNode, StopPolicy
from rankdeck_runs import events, layout
from rankdeck_runs.record import Record
from rankdeck_runs.values import integer, integers, number, objects, text

STREAMS = ("out", "err")


@dataclass(slots=True)
class Target:
    """One node of a run."""

    node: PoolNode
    node_rank: int
    log_names: tuple[str, ...]
    """Every log of the node, as the protocol names them: those of the plan, and of ranks that were dealt out
    to it or started again."""
    hostname: str = ""
    """What the machine that was reached when the run was prepared called itself; empty: not recorded."""
    asked: float | None = None
    """When its start was sent; None: never."""
    dir: str | None = None
    """The run's folder on the node; None while the node has not told."""
    shared: bool = False
    """Its ranks write straight into the record: nothing to copy."""
    fetched: bool = False
    """All it had is in the record."""
    missing: bool = False
    """It refused its start, or was found to know nothing of the run: there is nothing to fetch."""

    @property
    def index_names(self) -> tuple[str, ...]:
        """The side indexes of its ranks' logs."""
        stems = dict.fromkeys(name.rpartition(".")[0] for name in self.log_names)
        return tuple(f"{stem}.times" for stem in stems if not stem.startswith("launcher-"))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks it is known to have, as far as the plan or its events say."""
        known = {name.partition(".")[0] for name in self.log_names}
        return tuple(sorted(int(rank) for rank in known if rank.isdigit()))

    def saw(self, event: Mapping[str, Any]) -> bool:
        """Learn from one of the node's events which logs there are; True if there are more."""
        rank = integer(event, "rank")
        if event.get("ev") != "rank_started" or rank is None:
            return False
        attempt = integer(event, "attempt") or 1
        new = [
            name
            for stream in STREAMS
            if (name := layout.log_name(rank, stream, attempt)) not in self.log_names
        ]
        self.log_names = (*self.log_names, *new)
        return bool(new)

    @property
    def name(self) -> str:
        """The node's name in the pool."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class Targets:
    """All nodes of a run."""

    backend: BackendKind
    stop: StopPolicy
    nodes: tuple[Target, ...]
    created: float
    world_size: int


def read_targets(record: Record) -> Targets:
    """The nodes of a recorded run.

    Raises:
        RankdeckError: the record does not say which they are.
    """
    plan = record.plan()
    created: Mapping[str, Any] = {}
    by_name: dict[str, Target] = {}
    for event in events.read(record.events_path):
        if event["ev"] == "run_created":
            created = event
            by_name = _planned(plan, event)
        else:
            _note(by_name.get(text(event, "node")), event)
    try:
        backend = BackendKind(text(created, "backend"))
        stop = _stop_policy(created.get("stop"))
    except ValueError:
        backend, by_name, stop = BackendKind.LOCAL, {}, StopPolicy()
    if not by_name:
        raise RankdeckError(
            f"the record {record.path} does not say which nodes the run was on",
            f"its {record.events_path.name} or plan.json is damaged or missing",
        )
    nodes = tuple(sorted(by_name.values(), key=lambda target: target.node_rank))
    return Targets(backend, stop, nodes, number(created, "t") or 0.0, _world_size(plan))


def _world_size(plan: Mapping[str, Any]) -> int:
    return sum(len(integers(node, "ranks")) for node in objects(plan, "nodes"))


def another_machine(target: Target, connection: AgentConnection) -> NodeError | None:
    """Why a node that knows nothing of the run may be another one than that on which it was started; or None.

    Containers on one machine share a boot id, and a machine booted again has another: only the name tells.
    """
    found = text(connection.hello, "host")
    if not target.hostname or not found or target.hostname == found:
        return None
    return NodeError(
        target.name,
        Step.CONNECT,
        f"this is another machine (host name {found}) than the one of the run ({target.hostname})",
        "the ssh config, or the name service, leads elsewhere than when the run was started",
    )


def run_folder(target: Target, run_id: str, connection: AgentConnection) -> str:
    """The run's folder on a node: as the node told, else the agent's default (docs/agent-protocol.md)."""
    return target.dir or f"{text(connection.hello, 'folder')}/runs/{run_id}/{target.node_rank}"


def _planned(plan: Mapping[str, Any], created: Mapping[str, Any]) -> dict[str, Target]:
    hostnames = {text(node, "name"): text(node, "hostname") for node in objects(created, "nodes")}
    reached = {
        text(node, "name"): PoolNode(
            text(node, "name"), text(node, "host"), text(node, "user") or None, integer(node, "port")
        )
        for node in objects(created, "nodes")
    }
    found: dict[str, Target] = {}
    for node in objects(plan, "nodes"):
        name, node_rank = text(node, "node"), integer(node, "node_rank")
        if name in reached and node_rank is not None:
            found[name] = Target(reached[name], node_rank, log_names(node), hostnames[name])
    return found


def log_names(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Every log of a node of plan.json, as the protocol names them; launchers first.

    Ranks that their launcher deals out have logs only once they run.
    """
    launchers = [
        f"launcher-{index}.{stream}"
        for index, process in enumerate(objects(node, "processes"))
        if integer(process, "launcher_args")
        for stream in STREAMS
    ]
    ranks = () if is_dealt(node) else integers(node, "ranks")
    return (*launchers, *(layout.log_name(rank, stream) for rank in ranks for stream in STREAMS))


def is_dealt(node: Mapping[str, Any]) -> bool:
    """Whether a node of plan.json gets its ranks' numbers only from its launcher."""
    return any(process.get("fixed_ranks") is False for process in objects(node, "processes"))


def _note(target: Target | None, event: Mapping[str, Any]) -> None:
    if target is None:
        return
    target.saw(event)
    match event["ev"]:
        case "start_asked":
            target.asked = number(event, "t")
            target.shared = event.get("shared") is True
        case "start_accepted":
            target.dir = text(event, "dir") or None
        case "start_refused":
            # A start whose answer never came may have happened.
            target.missing = event.get("unsure") is not True
        case "node_missing" | "start_called_off":
            target.missing = True
        case "node_fetched":
            target.fetched = True


def _stop_policy(value: object) -> StopPolicy:
    if not isinstance(value, dict):
        return StopPolicy()
    default = StopPolicy()
    grace = number(value, "grace")
    return StopPolicy(
        text(value, "signal") or default.signal,
        default.grace if grace is None else grace,
        OnRankFailure(text(value, "on_rank_failure") or default.on_rank_failure),
    )
