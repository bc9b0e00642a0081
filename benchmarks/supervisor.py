"""What a node's supervisor costs while its ranks sleep: memory and idle CPU, beside torchrun's agent.

Both run at the same time with the same ranks (`sleep`), and are measured over the same seconds. Nobody is
connected to the run: a session is a process of its own and ends with its connection; what one costs while it
follows the idle run is told, too. Memory is PSS (shared pages counted by share); `alone` is what no other
process shares.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import measure
from harness import node

RANKS = (2, 8)
WINDOW = 20.0
"""Seconds over which idle CPU is taken."""
SETTLE = 3.0
"""Seconds between the last rank's start and the measurement."""
PSS_LIMIT = 10.0
"""MiB."""
CPU_LIMIT = 0.2
"""Percent of a core."""
PROGRAM = ("sleep", "3600")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process, or several alike together, cost."""

    pss: float
    """MiB."""
    private: float
    """MiB."""
    cpu: float
    """Percent of a core."""


def is_sleep(pid: int) -> bool:
    """Whether a process has become the rank's program."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def ranks_below(pid: int) -> list[int]:
    """The rank processes that descend from this one."""
    return [found for found in measure.descendants(pid) if is_sleep(found)]


@contextlib.contextmanager
def torchrun(ranks: int) -> Iterator[int | None]:
    """The agent of torchrun with sleeping ranks: its pid, None where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        yield None
        return
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--no-python"]
    agent = subprocess.Popen(
        [sys.executable, *launcher, *PROGRAM], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield agent.pid
    finally:
        agent.terminate()
        agent.wait(60)


@contextlib.asynccontextmanager
async def follower(directory: str) -> AsyncIterator[int]:
    """A session that follows the whole run: its pid."""
    connection = await node.connect()
    follow = asyncio.create_task(
        connection.stream(
            "follow", lambda header, body: None, dir=directory, since=0, logs="all", offsets={}, samples=2.0
        )
    )
    try:
        yield connection.hello["pid"]
    finally:
        follow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await follow
        await connection.close()


async def costs(groups: dict[str, list[int]], window: float) -> dict[str, Cost]:
    """What these processes cost over the same seconds."""
    before = {name: measure.cpu_seconds(pids) for name, pids in groups.items()}
    began = time.monotonic()
    await asyncio.sleep(window)
    seconds = time.monotonic() - began
    return {
        name: Cost(
            pss=sum(map(measure.pss_mib, pids)),
            private=sum(map(measure.private_mib, pids)),
            cpu=100 * (measure.cpu_seconds(pids) - before[name]) / seconds,
        )
        for name, pids in groups.items()
    }


def measure_with(ranks: int) -> dict[str, Cost]:
    """One start of both with so many ranks: name -> cost."""
    with torchrun(ranks) as agent:
        return asyncio.run(measure_beside(agent, ranks))


async def measure_beside(agent: int | None, ranks: int) -> dict[str, Cost]:
    """Start a run beside torchrun's agent and measure both."""
    started = all_started(ranks)
    async with node.running(PROGRAM, ranks) as run:
        supervisor = run.supervisor
        await asyncio.to_thread(measure.wait_for, f"{ranks} ranks of rankdeck", started(supervisor))
        if agent is not None:
            await asyncio.to_thread(measure.wait_for, f"{ranks} ranks of torchrun", started(agent))
        await asyncio.sleep(SETTLE)
        shims = [pid for pid in measure.descendants(supervisor) if not is_sleep(pid)]
        groups = {"supervisor": [supervisor]}
        if shims:
            groups["shims"] = shims
        if agent is not None:
            groups["torchrun's agent"] = [agent]
        found = await costs(groups, WINDOW)
        async with follower(run.directory) as session:
            await asyncio.sleep(SETTLE)
            found["session that follows"] = (await costs({"": [session]}, WINDOW))[""]
    return found


def all_started(ranks: int) -> Callable[[int], Callable[[], bool]]:
    """Makes conditions: all of a process's ranks run their program."""
    return lambda pid: lambda: len(ranks_below(pid)) == ranks


def main() -> int:
    options = measure.arguments(__doc__, rounds=3, quick=1)
    report = measure.Report(
        "A node's supervisor while its ranks sleep", ("", "PSS MiB", "alone MiB", "CPU % of a core")
    )
    with node.scratch():
        for ranks in RANKS:
            rounds = []
            for number in range(options.rounds):
                measure.say(f"{ranks} ranks, round {number + 1} of {options.rounds}")
                rounds.append(measure_with(ranks))
            add(report, ranks, rounds)
    report.notes.append(
        f"{options.rounds} rounds, medians; CPU over {WINDOW:g} s; `shims` is all of them together"
    )
    return report.finish(as_json=options.as_json)


def add(report: measure.Report, ranks: int, rounds: list[dict[str, Cost]]) -> None:
    """The medians of the rounds with so many ranks."""
    median = {
        name: Cost(
            *(
                statistics.median(getattr(found[name], field) for found in rounds)
                for field in ("pss", "private", "cpu")
            )
        )
        for name in rounds[0]
    }
    for name, cost in median.items():
        report.rows.append(
            (f"{name}, {ranks} ranks", f"{cost.pss:.1f}", f"{cost.private:.1f}", f"{cost.cpu:.3f}")
        )
        report.figures[f"{name}, {ranks} ranks"] = {
            "pss_mib": cost.pss,
            "private_mib": cost.private,
            "cpu_percent": cost.cpu,
        }
    ours = median["supervisor"]
    report.bars.append(measure.Bar(f"supervisor's PSS, {ranks} ranks", ours.pss, PSS_LIMIT, " MiB"))
    report.bars.append(measure.Bar(f"supervisor's idle CPU, {ranks} ranks", ours.cpu, CPU_LIMIT, " %"))
    theirs = median.get("torchrun's agent")
    if theirs is not None:
        report.notes.append(f"{ranks} ranks: {ours.pss / theirs.pss:.3f} of the memory of torchrun's agent")


if __name__ == "__main__":
    sys.exit(main())
