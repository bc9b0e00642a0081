"""The launch plan: what runs where, with which environment and why.

The object that is shown is the one that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rankdeck_profiles.model import BARRIER_TIMEOUT, StopPolicy
from rankdeck_profiles.nodes import bracketed

FILES = "@FILES@"
"""In a launcher's words: the folder that holds the process's `files`."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that must be on the node before anything is started there."""

    kind: str
    """`file` (readable), `dir` (may be entered), `program` (on PATH, or a path), `module` (importable),
    `port` (`address:port` can be bound) or `login` (an ssh that asks nothing gets in)."""
    value: str
    """The path, program, module name, address and port, or hosts with blanks between."""
    by: str = ""
    """For `module`: the interpreter that must find it. For `login`: ssh's arguments, as one text."""
    why: str = ""
    """The profile's key that asks for it, for the message: `script`, `workdir`, `python`."""


class ProcessKind(StrEnum):
    """Who starts a process's ranks."""

    RANK = "rank"
    """The process is one rank: the node's supervisor starts it."""
    LAUNCHER = "launcher"
    """The process starts this node's ranks (torchrun, accelerate)."""
    MPIRUN = "mpirun"
    """The process, on the head node alone, starts the ranks of all nodes."""


@dataclass(frozen=True, slots=True)
class RankSource:
    """By which variables of its launcher a rank knows who it is."""

    rank: str
    local_rank: str
    world_size: str
    keep: tuple[str, ...] = ()
    """Globs over the variables that the launcher gives its ranks, which the program needs as they are. Only
    for `mpirun`: elsewhere a rank inherits the launcher's whole environment."""


@dataclass(frozen=True, slots=True)
class EndsWith:
    """For a process that serves others and never ends by itself."""

    ranks: tuple[int, ...]
    """When all of these have ended well, this process is stopped, which counts as its success."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process the node's supervisor starts: a rank, or a launcher that starts ranks."""

    ranks: tuple[int, ...]
    local_ranks: tuple[int, ...]
    """For each of `ranks`, its number on its own node."""
    launcher: tuple[str, ...]
    """Starts the ranks (torchrun with its flags); empty where the supervisor starts the rank itself."""
    program: tuple[str, ...]
    """What a rank runs. The rank shim is put between launcher and program at the start, nothing else."""
    cwd: str
    env: Mapping[str, str]
    """What rankdeck sets on top of the node's own environment, in the order it is shown. For `mpirun`: the
    launcher's alone; its ranks have their node's `rank_env`."""
    fill: bool = False
    """True: `$RANK`-like names in `program` are filled in on the node, by the shim."""
    kind: ProcessKind = ProcessKind.RANK
    rank_from: RankSource | None = None
    """None where the supervisor itself knows the rank."""
    macros: bool = False
    """True: the launcher makes `$$` a `$` in every word (torchrun); the words are doubled for it."""
    fixed_ranks: bool = True
    """False: ranks are dealt out at the start and after each restart, so `ranks` says how many, not which."""
    restarts: int = 0
    """How often the launcher starts its ranks again after one of them has failed."""
    ends_with: EndsWith | None = None
    inside: int = 0
    """How many more processes the rank starts by itself, as far as known (Lightning: one a slot)."""
    role: str = ""
    """What the rank is in its framework's words: `worker 0`, `ps 1`."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name -> text: written on the node before the start; the launcher's words name them by `FILES`."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command as a person would type it."""
        return self.launcher + self.program


@dataclass(frozen=True, slots=True)
class FoundVariable:
    """A variable that the node's login has, which is taken out of the environment, or left in it."""

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
    """Empty where another node's mpirun starts this node's ranks."""
    env_removed: tuple[FoundVariable, ...] = ()
    env_kept: tuple[FoundVariable, ...] = ()
    """Of the login there, what programs and libraries heed and rankdeck neither sets nor removes."""
    needs: tuple[Need, ...] = ()
    rank_env: Mapping[str, str] = field(default_factory=dict)
    """What this node's ranks get on top of the node's environment where an mpirun starts them; beside it the
    shim sets RANK and LOCAL_RANK. Empty elsewhere: it is in the processes."""
    cwd: str = ""
    """The ranks' working directory."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Variable -> why it has its value on this node, where the nodes' reasons differ."""

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """For each of `ranks`, its number on this node."""
        return tuple(range(len(self.ranks)))


@dataclass(frozen=True, slots=True)
class Head:
    """The node that hosts rank 0."""

    node: str
    address: str
    """MASTER_ADDR."""
    port: int
    """MASTER_PORT."""

    @property
    def endpoint(self) -> str:
        """Both, as `address:port`."""
        return f"{bracketed(self.address)}:{self.port}"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A whole run's plan."""

    framework: str
    world_size: int
    head: Head
    nodes: tuple[NodePlan, ...]
    reasons: Mapping[str, str]
    """Variable -> why it has its value; where the nodes' reasons differ, the first node's, marked so."""
    warnings: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env_from: tuple[str, ...] = ()
    """Names only: the values travel apart and are never part of a plan."""
    assumed: tuple[str, ...] = field(default=())
    """What was taken for granted without facts (offline)."""
    stop: StopPolicy = field(default_factory=StopPolicy)
    """How the ranks are ended, and what one's failure does to the others."""
    barrier_timeout: float = BARRIER_TIMEOUT
    """Seconds for all nodes to be ready; of no interest to a run on one node."""

    def reason(self, node: NodePlan, name: str) -> str:
        """Why a variable has its value on a node; empty where that is not known."""
        return node.reasons.get(name) or self.reasons.get(name, "")

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck plan --format json`, and recorded as plan.json."""
        from rankdeck_profiles import plan_json

        return plan_json.to_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LaunchPlan:
        """The plan that `to_json` wrote; unknown fields are passed over.

        Raises:
            KeyError: a field is missing.
        """
        from rankdeck_profiles import plan_json

        return plan_json.from_json(data)
