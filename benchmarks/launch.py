"""How long it takes until two local ranks run: rankdeck's agent, mpirun and torchrun.

The clock starts when the launcher is asked and stops at the later of the two ranks' first lines. Every rank
is `python -I -S`, without torch, and writes the time of its first line to a file. The variants run in random
order in each round; ratios are taken round by round. torchrun takes seconds: it takes part in every fourth.

- `rankdeck, connected`: a `start` request over a connection that is open, as after the composer's checks
- `rankdeck, new connection`: the agent is started, too

Needs mpirun (Debian: openmpi-bin); torchrun is left out where there is no torch.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import measure
from harness import node

RANKS = 2
LIMIT = 1.0
"""Within the time of mpirun."""
LIMIT_SECONDS = 120.0
"""After so long a launch has failed."""
TORCHRUN_EVERY = 4

RANK = """import time
now = time.time()
import os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"]
with open(sys.argv[1] + "/" + rank + ".new", "w") as file:
    file.write(repr(now))
os.rename(file.name, sys.argv[1] + "/" + rank)
"""


class Launches:
    """Launches two ranks, one way or another, and tells how long it took until both ran."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._script = folder / "rank.py"
        self._script.write_text(RANK)

    def _next(self) -> tuple[Path, list[str]]:
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        return place, [*node.python(), str(self._script), str(place)]

    @staticmethod
    def _stamps(place: Path) -> list[float] | None:
        found = [path for path in place.iterdir() if path.name.isdigit()]
        return [float(path.read_text()) for path in found] if len(found) == RANKS else None

    def rankdeck(self, *, connected: bool) -> float:
        """Seconds with a `start` request to the local agent."""
        return asyncio.run(self._rankdeck(connected=connected))

    async def _rankdeck(self, *, connected: bool) -> float:
        place, program = self._next()
        what = node.plan(program, RANKS)
        connection = None
        if connected:
            connection = await node.connect()
            await connection.request("ping")  # it has come up and waits
        began = time.time()
        if connection is None:
            connection = await node.connect()
        run = await node.start(connection, what)
        stamps = await asyncio.to_thread(
            measure.wait_for, "two ranks of rankdeck", lambda: self._stamps(place), LIMIT_SECONDS
        )
        await node.ended(connection, run)
        await connection.close()
        return max(stamps) - began

    def command(self, launcher: list[str]) -> float:
        """Seconds with a launcher's command line."""
        place, program = self._next()
        began = time.time()
        done = subprocess.run(
            [*launcher, *program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            cwd="/",
        )
        stamps = self._stamps(place)
        if done.returncode or stamps is None:
            raise SystemExit(
                f"{launcher[0]} failed with status {done.returncode}: {done.stderr.decode()[-2000:]}"
            )
        return max(stamps) - began


def mpirun() -> list[str]:
    """The command line up to the program."""
    path = shutil.which("mpirun")
    if path is None:
        raise SystemExit(
            "mpirun is not installed: it is what rankdeck is measured against (Debian: openmpi-bin)"
        )
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [path, *root, "--oversubscribe", "-n", str(RANKS)]


def torchrun() -> list[str] | None:
    """The command line up to the program; None where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={RANKS}",
        "--no-python",
    ]


def main() -> int:
    options = measure.arguments(__doc__, rounds=24, quick=4)
    with node.scratch() as folder:
        launches = Launches(folder)
        variants: dict[str, Callable[[], float]] = {
            "rankdeck, connected": lambda: launches.rankdeck(connected=True),
            "rankdeck, new connection": lambda: launches.rankdeck(connected=False),
            "mpirun -n 2": lambda: launches.command(mpirun()),
        }
        for run in variants.values():
            run()  # what is on disk is in memory now
        found = {name: [] for name in variants}
        slow = torchrun()
        torch_seconds: list[float] = []
        for number in range(options.rounds):
            measure.say(f"round {number + 1} of {options.rounds}")
            for name, values in measure.interleave(1, variants).items():
                found[name] += values
            if slow is not None and number % TORCHRUN_EVERY == 0:
                torch_seconds.append(launches.command(slow))
    return report(found, torch_seconds).finish(as_json=options.as_json)


def report(found: dict[str, list[float]], torch_seconds: list[float]) -> measure.Report:
    """Medians, ratios and bars."""
    peer = found["mpirun -n 2"]
    made = measure.Report(
        "From asking to two local ranks running", ("", "median ms", "fastest", "slowest", "to mpirun")
    )
    every = {**found, "torchrun": torch_seconds} if torch_seconds else found
    for name, seconds in every.items():
        ratio = statistics.median(seconds) / statistics.median(peer)
        if name in found:
            ratio = measure.pair_ratio(seconds, peer)
        ms = [f"{1000 * of(seconds):.0f}" for of in (statistics.median, min, max)]
        made.rows.append((name, *ms, f"{ratio:.2f}"))
        made.figures[name] = {"seconds": seconds, "to_mpirun": ratio}
        if name.startswith("rankdeck"):
            made.bars.append(measure.Bar(f"{name}, to mpirun", ratio, LIMIT, "x"))
    made.notes.append(f"{len(peer)} rounds")
    if torch_seconds:
        made.notes.append(f"torchrun: {len(torch_seconds)} rounds, its ratio is that of the medians")
    else:
        made.notes.append("torchrun: left out, no torch here")
    return made


if __name__ == "__main__":
    sys.exit(main())
