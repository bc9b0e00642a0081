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

from chaos.field import CLOCK_NODE, field
from chaos.round import Round
from chaos.schedule import Schedule
from cluster import missing


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m chaos", description="Random faults over many short runs.")
    made.add_argument(
        "--seed", type=int, help="the same faults again; their moments are the machine's (default: a new one)"
    )
    made.add_argument(
        "--events", type=int, default=100, help="end after the round in which so many have happened"
    )
    made.add_argument("--round", type=int, help="this round of the seed alone")
    made.add_argument("--from", type=int, default=0, dest="first", help="the first round")
    made.add_argument(
        "--short", action="store_true", help="no fault outlasts the patience of the nodes (60 s)"
    )
    made.add_argument("--verbose", action="store_true", help="every round's events")
    return made


def main() -> int:
    """The exit status is 1 if anything was wrong, 2 if there can be no cluster here."""
    args = parser().parse_args()
    faulthandler.register(signal.SIGUSR1)
    if reason := missing():
        print(f"chaos: {reason}", file=sys.stderr)
        return 2
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    events: Counter[str] = Counter()
    states: Counter[str] = Counter()
    rounds = found = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rankdeck-chaos-") as folder, field(Path(folder)) as ground:
        number = args.first if args.round is None else args.round
        while events.total() < args.events:
            schedule = Schedule.draw(
                seed, number, [node.name for node in ground.cluster.nodes], CLOCK_NODE, not args.short
            )
            this = Round(ground, schedule, seed, number)
            this.run()
            rounds += 1
            events += this.events
            states.update(trial.shown.get("state", "never recorded") for trial in this.trials)
            found += len(this.found)
            print(
                f"round {number}: {time.monotonic() - began:.0f} s,"
                f" {events.total()} events, {found} violations",
                flush=True,
            )
            if this.found or args.verbose:
                print(this.report, flush=True)
            if args.round is not None:
                break
            number += 1
    print(f"seed {seed}: {rounds} rounds, {states.total()} runs, {time.monotonic() - began:.0f} s")
    print(
        "events: "
        + ", ".join(f"{kind} {count}" for kind, count in sorted(events.items()))
        + f"; {events.total()} in all"
    )
    print("runs ended: " + ", ".join(f"{state} {count}" for state, count in sorted(states.items())))
    print(f"violations: {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
