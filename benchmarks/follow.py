"""What it costs to follow 64 ranks with 1,000 lines a second each over SSH.

64 ranks write lines of 100 bytes that carry the time of their write, on a node behind an OpenSSH server of
our own on the loopback interface. In every round, in random order, a new run is followed by

- `rankdeck`: a client without a screen, the engine following all logs over one connection into its record
- `64 x ssh tail -F`: one OpenSSH client a rank, with OpenSSH's defaults
- `1 x ssh tail -F`: one OpenSSH client for all files, their lines mixed

What counts is the CPU of the client: the whole process of rankdeck, the ssh processes without whoever reads
their output. The server's side is told beside it (sshd and what it started, here the agent's session).
Lateness is the time from a line's write until its bytes are in rankdeck's record, or read from an ssh's pipe
(four of them; the others print into files). The ranks' own CPU is in neither.

How much an ssh costs depends on how often a rank writes, as each write is a packet of its own: up to 1,000 a
second and rank where a program flushes every line, few where it buffers. Here the ranks write 200 times a
second, five lines each time. The ratio is worse for rankdeck where they write less often, and better where
they write more often; two cores can't drive the latter. And 64 ssh with their sshd and tail at once leave two
cores no rest: lines pile up, go in larger packets, and ssh looks cheaper than it is where there is room. So
they run 16 at a time, all 64 ranks writing, and their CPU is added up. `busy` tells if the machine had room.

Needs an OpenSSH server and client, and a C compiler (Debian: openssh-server, gcc).
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import measure
from harness import node, sshd, writer
from harness.tails import Tails

RANKS = 64
RATE = 1000
"""Lines a second and rank."""
WARM_UP = 3.0
"""Seconds from the first lines to the measurement."""
WINDOW = 5.0
"""Seconds of a measurement."""
AT_ONCE = 16
"""How many of the 64 x ssh tail -F run at a time."""
LONGEST = 600.0
"""Seconds after which a rank ends by itself, whatever happens here."""
CPU_LIMIT = 0.12
"""Times the CPU of 64 x ssh tail -F."""
LATE_LIMIT = 60.0
"""Milliseconds within which 99 % of the lines are there."""
RATE_LIMIT = 1.02
"""The ranks must keep their rate, or less is followed than is said."""
OWN_PLACE = "/proc/self/cwd"
"""Where the client keeps its record, so named that the node does not find it there: else they would share it,
as on a cluster's shared file system, and no log would go over the connection."""
CLIENT = Path(__file__).parent / "harness" / "follow_client.py"


@dataclass(frozen=True, slots=True)
class Found:
    """One measurement of one variant."""

    client: float
    """CPU, percent of a core."""
    server: float
    """CPU, percent of a core."""
    busy: float
    """How much of the machine was in use, percent of all cores."""
    rate: float
    """Lines a second and rank that were written meanwhile."""
    late: tuple[float, ...] | None
    """Seconds of every line."""


class Client:
    """The login side in a process of its own."""

    def __init__(self, server: sshd.Server, program: Path, place: Path) -> None:
        go = place / "go"
        rank = [str(program), str(RATE), str(LONGEST), str(go)]
        self._process = subprocess.Popen(
            [sys.executable, str(CLIENT), str(server.port), str(RANKS), *rank],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "RANKDECK_SSH_CONFIG": str(server.config), "RANKDECK_HOME": OWN_PLACE},
            cwd=place,
            start_new_session=True,  # a signal to our group must leave it there to end the run
        )
        self.go = go
        """Once this file is there, the ranks write."""
        self.run_id = str(self._answer())

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def ask(self, command: str) -> Any:
        """Send a command and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the run and the process."""
        if self._process.poll() is None:
            self.ask("stop")
            self._process.communicate(timeout=30)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the client ended with status {self._process.wait(10)}")
        return json.loads(line)


class Run:
    """A run whose ranks wait for the word, to be followed in one of the ways."""

    def __init__(self, server: sshd.Server, client: Client, logs: list[Path], place: Path) -> None:
        self._place = place
        self._server = server
        self._client = client
        self._logs = logs

    def rankdeck(self) -> Found:
        """Follow with the engine."""
        self._client.ask("attach")
        self._client.go.touch()
        used = self._window([self._client.pid], lambda: self._client.ask("mark"))
        return Found(*used, self._late(self._client.ask("arrivals")))

    def tails(self) -> Found:
        """Follow with one ssh a rank."""
        self._client.go.touch()
        parts = [self._some_tails(self._logs[first : first + AT_ONCE]) for first in range(0, RANKS, AT_ONCE)]
        late = itertools.chain.from_iterable(part.late or () for part in parts)
        return Found(
            client=sum(part.client for part in parts),
            server=sum(part.server for part in parts),
            busy=statistics.fmean(part.busy for part in parts),
            rate=min(part.rate for part in parts),
            late=tuple(late),
        )

    def _some_tails(self, logs: list[Path]) -> Found:
        commands = [self._server.ssh("tail", "-n", "0", "-F", str(log)) for log in logs]
        with Tails(commands, self._place) as tails:
            used = self._window(tails.pids, tails.mark)
            return Found(*used, tuple(tails.late()))

    def one_tail(self) -> Found:
        """Follow with one ssh for all ranks."""
        self._client.go.touch()
        with Tails([self._server.ssh("tail", "-n", "0", "-F", *map(str, self._logs))], self._place) as tails:
            return Found(*self._window(tails.pids, lambda: None), None)

    def _window(self, client: list[int], mark: Callable[[], Any]) -> tuple[float, float, float, float]:
        """What is in Found, but for `late`."""
        time.sleep(WARM_UP)
        server = [self._server.pid, *measure.descendants(self._server.pid)]
        mark()
        before = [measure.cpu_seconds(client), measure.cpu_seconds(server)]
        size, idle, began = self._size(), measure.idle_seconds(), time.monotonic()
        time.sleep(WINDOW)
        seconds = time.monotonic() - began
        after = [measure.cpu_seconds(client), measure.cpu_seconds(server)]
        used = [100 * (b - a) / seconds for a, b in zip(before, after, strict=True)]
        busy = 100 - 100 * (measure.idle_seconds() - idle) / seconds / (os.cpu_count() or 1)
        rate = (self._size() - size) / writer.LINE / len(self._logs) / seconds
        return used[0], used[1], busy, rate

    def _size(self) -> int:
        return sum(log.stat().st_size for log in self._logs)

    def _late(self, arrivals: list[tuple[float, str, int, int]]) -> tuple[float, ...]:
        """Seconds from write to record of every line, by the stamps in the node's own files."""
        pieces: dict[str, list[tuple[float, int, int]]] = {}
        for when, name, offset, count in arrivals:
            pieces.setdefault(name, []).append((when, offset, count))
        late: list[float] = []
        for log in self._logs:
            with log.open("rb") as file:
                late += writer.late(_read(file, pieces.get(log.name, [])), 0.0)
        return tuple(late)


def _read(file: BinaryIO, pieces: list[tuple[float, int, int]]) -> Iterator[tuple[float, bytes]]:
    """What arrived, read from the node's file; from the first whole line on."""
    for number, (when, offset, count) in enumerate(pieces):
        skipped = -offset % writer.LINE if number == 0 else 0
        file.seek(offset + skipped)
        yield when, file.read(count - skipped)


@contextmanager
def started(server: sshd.Server, program: Path, folder: Path) -> Iterator[Run]:
    """A new run whose ranks wait for the word to write."""
    place = Path(tempfile.mkdtemp(dir=folder))
    client = Client(server, program, place)
    logs = folder / "node" / "runs" / client.run_id / "0" / "logs"
    try:
        yield Run(server, client, measure.wait_for(f"logs of {RANKS} ranks", lambda: written(logs)), place)
    finally:
        client.close()
        shutil.rmtree(place)
        shutil.rmtree(logs)


VARIANTS: dict[str, Callable[[Run], Found]] = {
    "rankdeck": Run.rankdeck,
    f"{RANKS} x ssh tail -F": Run.tails,
    "1 x ssh tail -F": Run.one_tail,
}
PEER = f"{RANKS} x ssh tail -F"


def written(folder: Path) -> list[Path] | None:
    """The logs, once all ranks have written."""
    logs = sorted(folder.glob("rank-*.out"))
    return logs if len(logs) == RANKS and all(log.stat().st_size for log in logs) else None


def main() -> int:
    options = measure.arguments(__doc__, rounds=5, quick=1)
    with node.scratch() as folder, sshd.serve(folder) as server:
        program = writer.build(folder)

        def measured(name: str) -> Found:
            measure.say(name)
            with started(server, program, folder) as run:
                return VARIANTS[name](run)

        found = measure.interleave(options.rounds, {name: partial(measured, name) for name in VARIANTS})
    return report(found).finish(as_json=options.as_json)


def report(found: dict[str, list[Found]]) -> measure.Report:
    """Medians, ratios and bars."""
    made = measure.Report(
        f"Following {RANKS} ranks x {RATE:,} lines/s",
        ("", "client CPU %", "to 64 ssh", "server CPU %", "busy %", "late p50 ms", "p99 ms"),
    )
    peer = [each.client for each in found[PEER]]
    for name, all_found in found.items():
        client = [each.client for each in all_found]
        ratio = measure.pair_ratio(client, peer)
        server = statistics.median(each.server for each in all_found)
        late = [
            statistics.median(1000 * measure.percentile(each.late, share) for each in all_found)
            for share in (0.5, 0.99)
            if all_found[0].late
        ]
        busy = statistics.median(each.busy for each in all_found)
        cells = [f"{ms:.1f}" for ms in late] or ["-", "-"]
        cpu = (f"{statistics.median(client):.1f}", f"{ratio:.3f}", f"{server:.1f}", f"{busy:.0f}")
        made.rows.append((name, *cpu, *cells))
        made.figures[name] = {
            "client_percent": client,
            "ratio": ratio,
            "server_percent": server,
            "busy_percent": busy,
            "late_ms": late,
            "lines_per_second": [each.rate for each in all_found],
        }
        if name == "rankdeck":
            made.bars.append(measure.Bar(f"client CPU to {PEER}", ratio, CPU_LIMIT, "x"))
            made.bars.append(measure.Bar("99 % of lines in the record within", late[1], LATE_LIMIT, " ms"))
    slowest = min(each.rate for all_found in found.values() for each in all_found)
    made.bars.append(measure.Bar("asked line rate to the rate written", RATE / slowest, RATE_LIMIT, "x"))
    made.notes.append(f"{len(peer)} rounds, medians; {WINDOW:g} s each, of {PEER} {AT_ONCE} at a time")
    return made


if __name__ == "__main__":
    sys.exit(main())
