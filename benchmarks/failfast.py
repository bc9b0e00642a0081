"""How soon the ranks of all nodes are signalled once one has failed, with nobody connected to the run.

Eight nodes with one rank each, all on this machine; their supervisors are linked over its loopback interface.
One rank ends with a failure, and the time is from there to the moment when the last of the others has its
SIGTERM in hand: both ends are told by the ranks' own clocks, which are one. Also how long all of them take to
begin together, from the moment when the last node was started.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import measure
from harness import node

NODES = 8
LIMIT = 1.0
"""Seconds from a rank's exit to all others signalled."""

PROGRAM = """
import os, signal, sys, time
folder, rank = sys.argv[1], os.environ["RANK"]
def note(what):
    with open(folder + "/" + what + rank, "w") as file:
        file.write(repr(time.time()))
def stop(number, frame):
    note("signalled")
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
note("began")
while not (rank == sys.argv[2] and os.path.exists(folder + "/go")):
    time.sleep(0.005)
note("failed")
os._exit(7)
"""


def plans(folder: Path, failing: int) -> list[dict[str, Any]]:
    """One plan a node."""
    run = f"bench-{uuid.uuid4().hex[:8]}"
    names = [f"n{number}" for number in range(NODES)]
    made = []
    for number, name in enumerate(names):
        plan = node.plan([*node.python(), "-c", PROGRAM, str(folder), str(failing)], 1)
        plan.update(run=run, node=name, node_rank=number, world_size=NODES)
        plan["links"] = {"nodes": names, "barrier": 120.0, "lost": 60.0, "served": []}
        plan["processes"][0].update(ranks=[number])
        plan["processes"][0]["env"]["RANK"] = str(number)
        made.append(plan)
    return made


async def start(folder: Path, failing: int) -> float:
    """Start all nodes and leave them; returns when the last had started (unix seconds)."""
    connection = await node.connect()
    secret, port = secrets.token_hex(32), None
    try:
        for plan in plans(folder, failing):
            link = {"secret": secret, "address": "127.0.0.1", "port": port}
            reply = await connection.request(
                "start", run=plan["run"], dir=None, plan=plan, secrets={}, link=link, timeout=60.0
            )
            port = port or reply.header["port"]
        return time.time()
    finally:
        await connection.close()


def measured(scratch: Path, number: int) -> tuple[float, float]:
    """Seconds for all to begin, and seconds from the failure to the last signal."""
    folder = scratch / f"round-{number}"
    folder.mkdir()
    failing = number % NODES
    started = asyncio.run(start(folder, failing))

    def times(what: str, count: int) -> list[float]:
        def written() -> list[str]:
            found = [path.read_text() for path in folder.glob(f"{what}*")]
            return found if len(found) == count and all(found) else []

        return [float(text) for text in measure.wait_for(f"{count} ranks {what}", written)]

    began = max(times("began", NODES))
    (folder / "go").touch()
    signalled = max(times("signalled", NODES - 1))
    return began - started, signalled - times("failed", 1)[0]


def main() -> int:
    options = measure.arguments(__doc__, rounds=16, quick=4)
    with node.scratch() as scratch:
        found = [measured(scratch, number) for number in range(options.rounds)]
    began, signalled = ([round_[place] for round_ in found] for place in (0, 1))
    report = measure.Report(f"Fail-fast on {NODES} nodes, nobody connected", ("", "median s", "worst s"))
    rows = (("the last start to the last rank's first line", began), ("exit to the last signal", signalled))
    for name, values in rows:
        report.rows.append((name, f"{statistics.median(values):.3f}", f"{max(values):.3f}"))
        report.figures[name] = {"median_s": statistics.median(values), "worst_s": max(values)}
    report.bars.append(measure.Bar("exit to the last signal, worst", max(signalled), LIMIT, " s"))
    report.notes.append(f"{options.rounds} rounds; the failing rank is another one each time")
    return report.finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
