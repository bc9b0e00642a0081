"""What the benchmarks share: CPU and memory of processes, interleaved rounds, medians of pairs, the report.

Everything is read from /proc, so it works without root and for processes that are not our children.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Processes


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that these processes have used so far, all their living threads together.

    The first number of /proc/PID/task/TID/schedstat counts nanoseconds (the kernel's
    Documentation/scheduler/sched-stats.rst); /proc/PID/stat counts hundredths of a second, too coarse for a
    process that is idle. Threads and children that have ended are not in it.
    """
    total = 0
    for pid in pids:
        for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(schedstat.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def idle_seconds() -> float:
    """How long this machine's cores, all together, have been idle since it was started."""
    fields = Path("/proc/stat").read_text().split(maxsplit=6)
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")  # idle and iowait, proc_stat(5)


def pss_mib(pid: int) -> float:
    """The proportional set size: memory shared by N processes counts one Nth (proc_pid_smaps(5))."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB$", rollup, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"process {pid} has no memory: it has ended")
    return int(found[1]) / 1024


def private_mib(pid: int) -> float:
    """The part of its memory that it shares with no other process."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kib) for kib in re.findall(r"^Private_\w+:\s+(\d+) kB$", rollup, re.MULTILINE)) / 1024


def children(pid: int) -> list[int]:
    """The process's children, of all its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on; not the process itself."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting += children(child)
    return found


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Look until `condition()` is true and give what it gave.

    Raises:
        SystemExit: it did not come true in time.
    """
    limit = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > limit:
            raise SystemExit(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.02)
    return found


# Rounds


def interleave(rounds: int, variants: Mapping[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Run every variant once a round, in random order, so that other load on the machine meets all alike."""
    found: dict[str, list[Any]] = {name: [] for name in variants}
    for _ in range(rounds):
        names = list(variants)
        random.shuffle(names)
        for name in names:
            found[name].append(variants[name]())
    return found


def pair_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios taken round by round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=False))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# Report


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and the most it may be."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure keeps within the limit."""
        return self.value <= self.limit


@dataclass(slots=True)
class Report:
    """What a benchmark found: a table of figures, and the bars among them."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    """Everything measured, for --json."""

    def finish(self, *, as_json: bool) -> int:
        """Print; the exit status is 1 if a bar was missed."""
        if as_json:
            print(json.dumps(self._json(), indent=2))
        else:
            print(self._text())
        return 0 if all(bar.met for bar in self.bars) else 1

    def _text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [self.title, machine_line(), ""]
        for row in (self.columns, *self.rows):
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        lines.append("")
        for bar in self.bars:
            verdict = "met" if bar.met else "MISSED"
            lines.append(
                f"{verdict:<6}  {bar.name}: {bar.value:.3g}{bar.unit} (at most {bar.limit:g}{bar.unit})"
            )
        lines += [f"note    {note}" for note in self.notes]
        return "\n".join(lines)

    def _json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "machine": machine(),
            "figures": self.figures,
            "bars": [
                {"name": bar.name, "value": bar.value, "limit": bar.limit, "unit": bar.unit, "met": bar.met}
                for bar in self.bars
            ],
            "notes": self.notes,
        }


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    cpu = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def machine_line() -> str:
    """The same as a line."""
    found = machine()
    load = " ".join(map(str, found["load"]))
    return (
        f"{found['date']}, {found['cores']} x {found['cpu']}, Linux {found['kernel']}, "
        f"Python {found['python']}, load {load}"
    )


def arguments(doc: str | None, *, rounds: int, quick: int) -> argparse.Namespace:
    """The options that every benchmark has: `rounds` and `as_json`.

    Args:
        doc: the script's docstring; its first line is the help.
        rounds: how often every variant runs.
        quick: the same with --quick.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, help=f"how often every variant runs (default {rounds})")
    parser.add_argument("--quick", action="store_true", help=f"{quick} rounds: shows that it works, no more")
    parser.add_argument("--json", action="store_true", dest="as_json", help="everything measured, as JSON")
    found = parser.parse_args()
    if found.rounds is None:
        found.rounds = quick if found.quick else rounds
    if found.rounds < 1:
        parser.error(f"--rounds {found.rounds}: at least 1")
    return found


def say(text: str) -> None:
    """Tell on stderr what is under way, on a terminal only."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
