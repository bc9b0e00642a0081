"""``python -m chaos``, from the folder ``tests``, as root: rounds of random faults, until enough."""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from chaos.field import CLOCK_NODE, Field, field
from chaos.neighbours import Neighbours
from chaos.round import Round
from chaos.schedule import Schedule
from cluster import missing


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Random faults over many short runs.",
        epilog="docs/reliability.md",
    )
    made.add_argument("--seed", type=int, help="the same faults again (default: a new one, which is printed)")
    made.add_argument(
        "--events", type=int, default=100, help="end after the round in which so many have happened"
    )
    made.add_argument("--from", type=int, default=0, dest="first", metavar="N", help="the first round")
    made.add_argument("--short", action="store_true", help="no fault outlasts the patience of the nodes")
    made.add_argument("--verbose", action="store_true", help="every round's events")
    made.add_argument(
        "--neighbours", type=int, metavar="N", help="instead: stop N runs beside another one of the same user"
    )
    return made


def main() -> int:
    """The exit status is 1 if anything was wrong, 2 if there can be no cluster here."""
    args = parser().parse_args()
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if reason := missing():
        print(f"chaos: {reason}", file=sys.stderr)
        return 2
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rankdeck-chaos-") as folder, field(Path(folder)) as ground:
        if args.neighbours is not None:
            return _neighbours(ground, seed, args.neighbours)
        return Tally(ground, seed).run(args.first, args.events, not args.short, args.verbose)


class Tally:
    """Rounds, and what they came to."""

    def __init__(self, ground: Field, seed: int) -> None:
        self._ground, self._seed = ground, seed
        self._events: Counter[str] = Counter()
        self._states: Counter[str] = Counter()
        self._rounds = self._found = 0
        self._began = time.monotonic()

    def run(self, first: int, events: int, long: bool, verbose: bool) -> int:
        """Rounds from the first on until so many events have happened; the exit status."""
        number = first
        try:
            while self._events.total() < events:
                self._round(number, long, verbose)
                number += 1
        finally:
            self._tell()
        return 1 if self._found else 0

    def _round(self, number: int, long: bool, verbose: bool) -> None:
        nodes = [node.name for node in self._ground.cluster.nodes]
        this = Round(
            self._ground, Schedule.draw(self._seed, number, nodes, CLOCK_NODE, long), self._seed, number
        )
        this.run()
        self._rounds += 1
        self._events += this.events
        self._states.update(trial.shown.get("state", "never recorded") for trial in this.trials)
        self._found += len(this.found)
        print(
            f"round {number}: {self._seconds:.0f} s, {self._events.total()} events, {self._found} violations",
            flush=True,
        )
        if this.found or verbose:
            print(this.report, flush=True)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _tell(self) -> None:
        events, states = (
            ", ".join(f"{what} {count}" for what, count in sorted(counted.items()))
            for counted in (self._events, self._states)
        )
        print(f"seed {self._seed}: {self._rounds} rounds, {self._states.total()} runs, {self._seconds:.0f} s")
        print(f"events: {events}; {self._events.total()} in all")
        print(f"runs ended: {states}")
        print(f"violations: {self._found}", flush=True)


def _neighbours(ground: Field, seed: int, times: int) -> int:
    began = time.monotonic()
    found = Neighbours(ground, seed).run(times, lambda stopped: print(f"stopped {stopped}", flush=True))
    for line in found:
        print(f"* {line}")
    print(
        f"stopped {times} runs beside another in {time.monotonic() - began:.0f} s; violations: {len(found)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
