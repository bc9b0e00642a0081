"""Which rank is which TensorFlow task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_profiles.errors import PlanError


@dataclass(frozen=True, slots=True)
class Roles:
    """How many tasks of each kind."""

    chief: bool
    ps: int
    evaluator: bool
    workers: int | None
    """None: as many as there are ranks left."""

    @property
    def others(self) -> int:
        """All but the workers."""
        return int(self.chief) + self.ps + int(self.evaluator)

    def describe(self, workers: int) -> str:
        """Such as `2 workers, 1 ps and 1 chief`, for messages."""
        parts = [f"{workers} {'worker' if workers == 1 else 'workers'}"]
        parts += [f"{self.ps} ps"] if self.ps else []
        parts += ["1 chief"] if self.chief else []
        parts += ["1 evaluator"] if self.evaluator else []
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


@dataclass(frozen=True, slots=True)
class Task:
    """One rank's part."""

    rank: int
    kind: str
    """`chief`, `worker`, `ps` or `evaluator`."""
    index: int


def spread(roles: Roles, nodes: int) -> list[int]:
    """Ranks on each node: as even as can be, the first nodes one more.

    Without a number of workers there is one a node; where a chief trains too (no parameter servers), it takes
    the place of one of them.

    Raises:
        PlanError: fewer tasks than nodes.
    """
    workers = roles.workers
    if workers is None:
        workers = max(1, nodes - int(roles.chief)) if not roles.ps else nodes
    total = workers + roles.others
    if total < nodes:
        raise PlanError(
            f"{roles.describe(workers)}: {total} in all, fewer than the {nodes} nodes",
            f"set nodes = {total}, or more workers",
        )
    each, more = divmod(total, nodes)
    return [each + (1 if node < more else 0) for node in range(nodes)]


def lay_out(roles: Roles, nodes: Sequence[Sequence[int]]) -> tuple[Task, ...]:
    """Give every rank its task.

    Rank 0 is the chief, where there is one, else a worker. The evaluator, then the parameter servers take the
    last ranks of nodes, so that each node keeps a task that trains, as far as there are enough, and that
    servers do not share one node's network; of equal nodes, the last. The rest are workers, in the order of
    their ranks.

    Args:
        roles: how many of each.
        nodes: each node's ranks.

    Raises:
        PlanError: the numbers do not add up.
    """
    world = sum(len(ranks) for ranks in nodes)
    workers = world - roles.others
    if workers < 1 or roles.workers not in (None, workers):
        wanted = roles.workers or 1
        raise PlanError(
            f"{roles.describe(wanted)}: {wanted + roles.others} in all, but there are {world} processes",
            "leave procs_per_node and process_count out, or let the numbers agree",
        )
    kinds = {nodes[0][0]: "chief"} if roles.chief else {}
    free = [list(ranks) for ranks in nodes]
    free[0].pop(0)
    beside = [0] * len(nodes)
    """How many tasks that do not train each node has."""
    first_trains = not (roles.chief and roles.ps)

    def suits(node: int) -> tuple[bool, int, int]:
        keeps_one = len(free[node]) > 1 or (node == 0 and first_trains)
        return keeps_one, -beside[node], node

    for kind in (*["evaluator"] * roles.evaluator, *["ps"] * roles.ps):
        node = max((index for index, ranks in enumerate(free) if ranks), key=suits)
        kinds[free[node].pop()] = kind
        beside[node] += 1
    counted: dict[str, int] = {}
    tasks = []
    for rank in range(world):
        kind = kinds.get(rank, "worker")
        tasks.append(Task(rank, kind, counted.get(kind, 0)))
        counted[kind] = counted.get(kind, 0) + 1
    return tuple(tasks)
