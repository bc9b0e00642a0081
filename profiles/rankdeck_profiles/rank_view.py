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
    rows: list[Variable] = []
    launcher: list[Variable] = []
    also: tuple[str, ...] = OWN
    if process.kind is ProcessKind.MPIRUN:
        if starter is node:
            launcher = _rows(process.env, plan, node)
        rows = [
            Variable("RANK", str(rank), plan.reason(node, "RANK")),
            Variable("LOCAL_RANK", str(index), plan.reason(node, "LOCAL_RANK")),
            *_rows(node.rank_env, plan, node),
        ]
        also = (*(process.rank_from.keep if process.rank_from else ()), *OWN)
    else:
        rows = _rows(process.env, plan, node)
        if process.kind is ProcessKind.LAUNCHER:
            rows = [*_of_launcher(plan, process, rank, index), *rows]
            also = (*_TORCH_OWN, *OWN)
    rows += [Variable(name, "***", "from your shell; passed on, never recorded") for name in plan.env_from]
    return RankView(rank, process, starter.node, tuple(rows), tuple(launcher), also)


def _process(plan: LaunchPlan, node: NodePlan, rank: int) -> tuple[NodePlan, Process | None]:
    """What starts a rank, and on which node: its own, or the one whose mpirun has all ranks."""
    for holder in (node, *plan.nodes):
        for process in holder.processes:
            if rank in process.ranks:
                return holder, process
    return node, None


def _rows(env: Mapping[str, str], plan: LaunchPlan, node: NodePlan) -> list[Variable]:
    return [Variable(name, shown(name, value), plan.reason(node, name)) for name, value in env.items()]


def _of_launcher(plan: LaunchPlan, process: Process, rank: int, local_rank: int) -> list[Variable]:
    """What torchrun and its like set for each of their ranks, where it is not given already."""
    fixed = process.fixed_ranks
    by = f"by {plan.framework}"
    values = {
        "RANK": (str(rank) if fixed else AT_THE_START, f"{by}; counts from 0 over all nodes"),
        "LOCAL_RANK": (str(local_rank), f"{by}; counts from 0 on each node, chooses the GPU"),
        "WORLD_SIZE": (str(plan.world_size), f"{by}; ranks in all"),
        "LOCAL_WORLD_SIZE": (str(len(process.ranks)), f"{by}; ranks on the node"),
        "MASTER_ADDR": (plan.head.address if fixed else AT_THE_START, f"{by}; where rank 0 listens"),
        "MASTER_PORT": (str(plan.head.port) if fixed else AT_THE_START, f"{by}; port where rank 0 listens"),
    }
    if len(process.ranks) > 1:
        values["OMP_NUM_THREADS"] = ("1", f"{by}, as nothing else sets it")
    return [Variable(name, value, why) for name, (value, why) in values.items() if name not in process.env]
