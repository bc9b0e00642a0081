"""Processes that serve others and never end by themselves: stopped, as a success, when the others are done.

Ranks of this node are known; of those of other nodes the links tell.
"""

import signal
import time

from . import signals
from .ending import RUNNING as NOT_ENDING
from .ranks import ENDED, RUNNING

_PAUSE = 1.0
"""Seconds between two looks."""


class Finishing:
    """Watches for the end of those that are served."""

    def __init__(self, supervisor):
        self._supervisor = supervisor
        self._serving = [
            (process["ranks"], process["ends_with"])
            for process in supervisor.plan["processes"]
            if process.get("ends_with")
        ]
        self._next = time.monotonic() + _PAUSE
        self._deadlines = {}

    def due(self):
        """When `tick` must be called at the latest (monotonic), or None."""
        return self._next if self._at_work() else None

    def tick(self, now):
        """Look whether all have ended, and stop those who served them."""
        if now < self._next or not self._at_work():
            return
        self._next = now + _PAUSE
        for rank in self._supervisor.roster.ranks.values():
            if rank.finished and rank.state == RUNNING and now >= self._deadline(rank, now):
                rank.send(signal.SIGKILL)
        if self._supervisor.ending.phase != NOT_ENDING:
            return
        for ranks, ends in self._serving:
            if self._is_over(ends):
                self._finish(ranks)

    def _finish(self, ranks):
        known = self._supervisor.roster.ranks
        over = [known[rank] for rank in ranks if known[rank].state == RUNNING and not known[rank].finished]
        if over:
            self._supervisor.events.append("finishing", ranks=[rank.rank for rank in over])
        for rank in over:
            rank.finished = True
            rank.send(signals.number(self._supervisor.plan["stop"]["signal"]))

    def _deadline(self, rank, now):
        return self._deadlines.setdefault(rank.rank, now + self._supervisor.plan["stop"]["grace"])

    def _at_work(self):
        known = self._supervisor.roster.ranks
        return any(known[rank].state != ENDED for ranks, _ in self._serving for rank in ranks)

    def _is_over(self, ends):
        known, elsewhere = self._supervisor.roster.ranks, self._supervisor.together.well
        return all(
            known[number].ended_well if number in known else number in elsewhere for number in ends["ranks"]
        )
