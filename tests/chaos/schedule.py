"""What is to happen in a round, drawn from its seed before anything happens."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.trial import Shape

RUNS = 4
"""Beside one that nothing is done to, and that must live on while others are stopped."""

RUN_STRIKES = {
    "kill rank": 3,
    "kill shim": 3,
    "kill supervisor": 3,
    "kill session": 3,
    "kill client": 3,
    "interrupt": 1,
    "stop": 3,
}
NODE_STRIKES = {"cut": 4, "freeze": 4, "kill": 2, "power": 2, "full disk": 3, "jump": 3, "login disk": 2}
"""What may happen, and how often beside the others."""
LONG = {"cut": "cut long", "freeze": "freeze long"}
LONG_SECONDS = 75.0
"""Longer than nodes wait for one that is silent (60 s)."""


@dataclass(frozen=True)
class Strike:
    """One thing that is done."""

    kind: str
    after: float
    """Seconds after the run's launch (``early``) or after all ranks began; of a node: of all runs."""
    run: int | None = None
    """Which run; None: a node."""
    node: str = ""
    early: bool = False
    lasts: float = 0.0
    """Seconds until it is taken back."""
    seconds: float = 0.0
    """How far a clock jumps."""


@dataclass(frozen=True)
class Schedule:
    """A round."""

    shapes: tuple[Shape, ...]
    """The last is the one that nothing is done to."""
    launches: tuple[float, ...]
    """Seconds from the round's beginning."""
    strikes: tuple[Strike, ...]

    @classmethod
    def draw(cls, seed: int, number: int, nodes: list[str], clock: str, long: bool) -> Schedule:
        """The round of this number.

        Args:
            seed: the whole chaos's.
            number: which round.
            nodes: names of all nodes.
            clock: the node whose clock can jump.
            long: whether faults may outlast the patience of the nodes.
        """
        dice = random.Random(f"{seed}/{number}")
        shapes = [
            Shape.draw(dice, f"chaos-{seed}-{number}-{run}", nodes, run == RUNS) for run in range(RUNS + 1)
        ]
        strikes = [_on_run(dice, run, shapes[run]) for run in range(RUNS) for _ in range(dice.randint(2, 4))]
        strikes += _on_nodes(dice, nodes, clock, long)
        launches = [dice.uniform(0, 3) for _ in shapes]
        return cls(tuple(shapes), tuple(launches), tuple(strikes))


def _on_run(dice: random.Random, run: int, shape: Shape) -> Strike:
    early = dice.random() < 0.15
    kinds = dict(RUN_STRIKES)
    if shape.client == "detach" and not early:  # nobody is there then
        del kinds["kill client"]
    if shape.client != "follow":
        del kinds["interrupt"]
    return Strike(_drawn(dice, kinds), dice.uniform(0.2, 6 if early else 4), run, early=early)


def _on_nodes(dice: random.Random, nodes: list[str], clock: str, long: bool) -> list[Strike]:
    struck = dice.sample(nodes, dice.choice((0, 1, 2, 3)))
    return [_on_node(dice, node, clock, long) for node in struck]


def _on_node(dice: random.Random, node: str, clock: str, long: bool) -> Strike:
    kind = _drawn(dice, NODE_STRIKES)
    lasts = dice.uniform(1, 8)
    early = dice.random() < 0.15
    if long and kind in LONG and dice.random() < 0.15:
        kind, lasts = LONG[kind], LONG_SECONDS
    if kind == "jump":
        node = clock
    if kind == "login disk":
        node = ""
    seconds = dice.choice((-1, 1)) * dice.choice((2, 30, 300, 4000))
    return Strike(kind, dice.uniform(0.2, 4), None, node, early, lasts, float(seconds))


def _drawn(dice: random.Random, kinds: dict[str, int]) -> str:
    return dice.choices(list(kinds), list(kinds.values()))[0]
