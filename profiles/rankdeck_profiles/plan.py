"""The launch plan: what runs where, with which environment and why.

The object that is shown is the one that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankdeck_profiles.model import OnRankFailure, StopPolicy


@dataclass(frozen=True, slots=True)
class Need:
    """Something that must be on the node before anything is started there."""

    kind: str
    """`file` (readable), `dir` (may be entered), `program` (on PATH, or a path) or `module` (importable)."""
    value: str
    """The path, program or module name."""
    by: str = ""
    """For `module`: the interpreter that must find it."""
    why: str = ""
    """The profile's key that asks for it, for the message: `script`, `workdir`, `python`."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process the node's supervisor starts: a rank, or a launcher that starts ranks."""

    ranks: tuple[int, ...]
    local_ranks: tuple[int, ...]
    launcher: tuple[str, ...]
    """Starts the ranks (torchrun with its flags); empty where the supervisor starts the rank itself."""
    program: tuple[str, ...]
    """What a rank runs. The rank shim is put between launcher and program at the start, nothing else."""
    cwd: str
    env: Mapping[str, str]
    """What rankdeck sets on top of the node's own environment, in the order it is shown."""
    fill: bool = False
    """True: `$RANK`-like names in `program` are filled in on the node, by the shim."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command as a person would type it."""
        return self.launcher + self.program


@dataclass(frozen=True, slots=True)
class RemovedVariable:
    """A variable taken out of the node's environment."""

    name: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node's share."""

    node: str
    node_rank: int
    address: str
    ranks: tuple[int, ...]
    processes: tuple[Process, ...]
    env_removed: tuple[RemovedVariable, ...] = ()
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """The node that hosts rank 0."""

    node: str
    address: str
    """MASTER_ADDR."""
    port: int
    """MASTER_PORT."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A whole run's plan."""

    framework: str
    world_size: int
    head: Head
    nodes: tuple[NodePlan, ...]
    reasons: Mapping[str, str]
    """Variable -> why it has its value."""
    warnings: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env_from: tuple[str, ...] = ()
    """Names only: the values travel apart and are never part of a plan."""
    assumed: tuple[str, ...] = field(default=())
    """What was taken for granted without facts (offline)."""
    stop: StopPolicy = field(default_factory=StopPolicy)
    """How the ranks are ended, and what one's failure does to the others."""

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck plan --format json`, and recorded as plan.json."""
        return {
            "framework": self.framework,
            "world_size": self.world_size,
            "head": {"node": self.head.node, "address": self.head.address, "port": self.head.port},
            "nodes": [_node_json(node) for node in self.nodes],
            "reasons": dict(self.reasons),
            "warnings": list(self.warnings),
            "setup": list(self.setup),
            "env_from": list(self.env_from),
            "assumed": list(self.assumed),
            "stop": {
                "signal": self.stop.signal,
                "grace": self.stop.grace,
                "on_rank_failure": self.stop.on_rank_failure.value,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LaunchPlan:
        """The plan that `to_json` wrote; unknown fields are passed over.

        Raises:
            KeyError: a field is missing.
        """
        head, stop = data["head"], data["stop"]
        return cls(
            framework=data["framework"],
            world_size=data["world_size"],
            head=Head(head["node"], head["address"], head["port"]),
            nodes=tuple(_node_from_json(node) for node in data["nodes"]),
            reasons=dict(data["reasons"]),
            warnings=tuple(data["warnings"]),
            setup=tuple(data["setup"]),
            env_from=tuple(data["env_from"]),
            assumed=tuple(data["assumed"]),
            stop=StopPolicy(stop["signal"], stop["grace"], OnRankFailure(stop["on_rank_failure"])),
        )


def _node_json(node: NodePlan) -> dict[str, Any]:
    return {
        "node": node.node,
        "node_rank": node.node_rank,
        "address": node.address,
        "ranks": list(node.ranks),
        "processes": [
            {
                "ranks": list(process.ranks),
                "local_ranks": list(process.local_ranks),
                "argv": list(process.argv),
                "launcher_args": len(process.launcher),
                "cwd": process.cwd,
                "env": dict(process.env),
                "fill": process.fill,
            }
            for process in node.processes
        ],
        "env_removed": [{"name": v.name, "value": v.value, "why": v.why} for v in node.env_removed],
        "needs": [{"kind": n.kind, "value": n.value, "by": n.by, "why": n.why} for n in node.needs],
    }


def _node_from_json(data: Mapping[str, Any]) -> NodePlan:
    return NodePlan(
        node=data["node"],
        node_rank=data["node_rank"],
        address=data["address"],
        ranks=tuple(data["ranks"]),
        processes=tuple(_process_from_json(process) for process in data["processes"]),
        env_removed=tuple(RemovedVariable(v["name"], v["value"], v["why"]) for v in data["env_removed"]),
        needs=tuple(Need(n["kind"], n["value"], n["by"], n["why"]) for n in data["needs"]),
    )


def _process_from_json(data: Mapping[str, Any]) -> Process:
    argv = tuple(data["argv"])
    split = data["launcher_args"]
    return Process(
        ranks=tuple(data["ranks"]),
        local_ranks=tuple(data["local_ranks"]),
        launcher=argv[:split],
        program=argv[split:],
        cwd=data["cwd"],
        env=dict(data["env"]),
        fill=data["fill"],
    )
