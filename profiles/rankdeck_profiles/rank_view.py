"""A launch plan as one rank sees it: what starts it; each variable, its value, who sets it and why. Pure.

A plan says what is handed to launchers; what a launcher itself gives its ranks is added here, so that the
view is the rank's whole environment beside the node's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankdeck_profiles.masking import shown
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process, ProcessKind
from rankdeck_profiles.settings import OWN

AT_THE_START = "at the start"
"""In place of a value that a launcher chooses."""

_ACCELERATE_OWN = ("ACCELERATE_*",)
"""What accelerate adds for its own library, from its config (accelerate/utils/launch.py)."""

_TORCH_OWN = ("GROUP_*", "ROLE_*", "TORCHELASTIC_*")
"""What else torchrun gives its ranks (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a rank."""

    name: str
    value: str
    """As it may be shown: secrets are masked."""
    why: str


@dataclass(frozen=True, slots=True)
class Given:
    """A variable that a launcher, or the shim behind it, gives each of its ranks."""

    name: str
    values: tuple[str, ...]
    """One for each of the process's ranks, in their order."""
    why: str


@dataclass(frozen=True, slots=True)
class RankView:
    """What is started for a rank, and what it finds."""

    rank: int
    process: Process | None
    """What is, or starts, the rank; None: the plan has nothing for it."""
    starter: str
    """The node that the process runs on: another one than the rank's where an mpirun starts it."""
    env: tuple[Variable, ...]
    launcher_env: tuple[Variable, ...]
    """Of the launcher alone: mpirun's. Empty where the ranks inherit all of it."""
    also: tuple[str, ...]
    """Names, or patterns of names, that are there too, with values that nobody has to know."""


def of_rank(plan: LaunchPlan, node: NodePlan, index: int) -> RankView:
    """One rank's view.

    Args:
        plan: what will run.
        node: one of its nodes.
        index: which of the node's ranks.
    """
    rank = node.ranks[index]
    starter, process = _process(plan, node, rank)
    if process is None:
        return RankView(rank, None, node.node, (), (), ())
    launcher: list[Variable] = []
    given = [
        Variable(one.name, one.values[process.ranks.index(rank)], one.why)
        for one in given_to_ranks(plan, node, process)
    ]
    if process.kind is ProcessKind.MPIRUN:
        if starter is node:
            launcher = _rows(process.env, plan, node)
        rows = [*given, *_rows(node.rank_env, plan, node)]
    else:
        rows = [*given, *_rows(process.env, plan, node)]
    rows += [Variable(name, "***", "from your shell; passed on, never recorded") for name in plan.env_from]
    return RankView(rank, process, starter.node, tuple(rows), tuple(launcher), also_set(plan, process))


def given_to_ranks(plan: LaunchPlan, node: NodePlan, process: Process) -> tuple[Given, ...]:
    """What its launcher, or the shim behind it, sets for each of a process's ranks; the rest is in the plan.

    Args:
        plan: what will run.
        node: whose reasons are given.
        process: a launcher or an mpirun; empty for a process that is the rank itself.
    """
    if process.kind is ProcessKind.MPIRUN:
        return (
            Given("RANK", tuple(map(str, process.ranks)), plan.reason(node, "RANK")),
            Given("LOCAL_RANK", tuple(map(str, process.local_ranks)), plan.reason(node, "LOCAL_RANK")),
        )
    return _of_launcher(plan, process) if process.kind is ProcessKind.LAUNCHER else ()


def also_set(plan: LaunchPlan, process: Process) -> tuple[str, ...]:
    """Names, or patterns of names, that a process's ranks find too, with values that nobody has to know."""
    if process.kind is ProcessKind.MPIRUN:
        return (*(process.rank_from.keep if process.rank_from else ()), *OWN)
    if process.kind is not ProcessKind.LAUNCHER:
        return OWN
    return (*_TORCH_OWN, *(_ACCELERATE_OWN if plan.framework == "accelerate" else ()), *OWN)


def _process(plan: LaunchPlan, node: NodePlan, rank: int) -> tuple[NodePlan, Process | None]:
    """What starts a rank, and on which node: its own, or the one whose mpirun has all ranks."""
    for holder in (node, *plan.nodes):
        for process in holder.processes:
            if rank in process.ranks:
                return holder, process
    return node, None


def _rows(env: Mapping[str, str], plan: LaunchPlan, node: NodePlan) -> list[Variable]:
    return [Variable(name, shown(name, value), plan.reason(node, name)) for name, value in env.items()]


def _of_launcher(plan: LaunchPlan, process: Process) -> tuple[Given, ...]:
    """What torchrun and its like set for each of their ranks, where it is not given already."""
    fixed, count = process.fixed_ranks, len(process.ranks)
    by = f"by {plan.framework}"

    def same(name: str, value: object, why: str) -> Given:
        return Given(name, (str(value),) * count, f"{by}; {why}")

    ranks = tuple(map(str, process.ranks)) if fixed else (AT_THE_START,) * count
    given = [
        Given("RANK", ranks, f"{by}; counts from 0 over all nodes"),
        Given(
            "LOCAL_RANK",
            tuple(map(str, process.local_ranks)),
            f"{by}; counts from 0 on each node, chooses the GPU",
        ),
        same("WORLD_SIZE", plan.world_size, "ranks in all"),
        same("LOCAL_WORLD_SIZE", count, "ranks on the node"),
        same("MASTER_ADDR", plan.head.address if fixed else AT_THE_START, "where rank 0 listens"),
        same("MASTER_PORT", plan.head.port if fixed else AT_THE_START, "port where rank 0 listens"),
    ]
    if count > 1:
        given.append(Given("OMP_NUM_THREADS", ("1",) * count, f"{by}, as nothing else sets it"))
    return tuple(one for one in given if one.name not in process.env)
