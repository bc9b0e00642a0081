"""Two runs of one user, of the same script, on the same nodes: one is stopped, the other must not notice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.field import Field
from chaos.sight import above, of_run, ranks
from chaos.trial import Shape, Trial, now
from cluster.processes import Process

LIMIT = 120.0
"""Seconds for a launch or a stop: the machine may be slow and busy."""


@dataclass
class Neighbours:
    """One run that stays, and others that are launched beside it and stopped, one after the other."""

    ground: Field
    seed: int
    stopped: int = 0

    def run(self, times: int, told: Callable[[int], None] = lambda _: None) -> list[str]:
        """Stops so many runs; what the one that stays has noticed of it, in words.

        Args:
            times: how many.
            told: is told how many have been stopped.
        """
        dice = random.Random(f"{self.seed}/neighbours")
        stays = self._launch(dice, "stays")
        found: list[str] = []
        try:
            before = _everyone(stays)
            for number in range(times):
                found += self._one(dice, stays, before, number)
                self.stopped += 1
                told(self.stopped)
            found += self._stop(stays, ())
        finally:
            stays.leave()
        return found

    def _one(self, dice: random.Random, stays: Trial, before: set[Process], number: int) -> list[str]:
        goes = self._launch(dice, str(number))
        written = [stays.copy(rank, "out") for rank in range(stays.shape.world)]
        try:
            found = self._stop(goes, dice.choice(((), (), ("--force",))))
        finally:
            goes.leave()
        if lost := [process for process in before if not process.alive]:
            found.append(f"run {number} was stopped, and of its neighbour these are gone: {lost}")
        _until(lambda: all(len(stays.copy(rank, "out")) > len(old) for rank, old in enumerate(written)))
        stays.ask()
        if stays.shown["state"] != "running":
            found.append(f"run {number} was stopped, and its neighbour is {stays.shown['state']}")
        return found

    def _launch(self, dice: random.Random, name: str) -> Trial:
        shape = Shape(
            tag=f"beside-{self.seed}-{name}",
            nodes=tuple(node.name for node in self.ground.cluster.nodes[:2]),
            per_node=1,
            seconds=0.0,
            fail_rank=-1,
            term=dice.choice(("exit", "finish", "ignore")),
            worker=dice.choice(("none", "plain", "stubborn")),
            grace=1,
            client="detach",
            keep=False,
        )
        trial = Trial.make(shape, self.ground.site)
        trial.start()
        _until(lambda: all(map(trial.began, range(shape.world))) and not trial.launching)
        return trial

    @staticmethod
    def _stop(trial: Trial, how: tuple[str, ...]) -> list[str]:
        """What is wrong with the end of a run that is stopped."""
        process = trial.type("stop", trial.id or "", *how)
        status = process.wait(LIMIT)
        left = trial.alive()
        if status or left:
            return [f"{trial.shape.tag}: rankdeck stop ended with {status}, these run: {left}"]
        return []


def _everyone(trial: Trial) -> set[Process]:
    """All processes of a run: ranks, what they started, shims and supervisors."""
    found = set()
    for node in trial.site.cluster.nodes:
        shims = above(node, ranks(node, trial.shape.tag))
        for each in [*of_run(node, trial.shape.tag), *shims, *above(node, shims)]:
            found.add(Process.now(each.pid))
    return found


def _until(condition: Callable[[], bool]) -> None:
    limit = now() + LIMIT
    while not condition():
        if now() > limit:
            raise TimeoutError(f"waited {LIMIT} s in vain")
        time.sleep(0.05)
