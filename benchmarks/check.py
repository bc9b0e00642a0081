"""How long `rankdeck check` takes for 64 nodes, and what a look costs a node.

Nodes are those of the test cluster (namespaces with an SSH server each; root only, see docs/test-cluster.md),
all on this machine's cores. Where there can be none they are 64 loopback addresses of this machine, which are
looked at once for all.

- `64 nodes`: from no connection to the verdicts: log-ins, the look on each node, nodes reaching each other
- `64 nodes, connected`: the same again, over the connections that are open
- `a look`: wall and CPU time of all that one node reads, its children included
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import measure
from harness import node

from rankdeck_backends import package
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome

NODES = 64
LIMIT_SECONDS = 10.0
LOOK_SECONDS = 2.0
TESTS = Path(__file__).parents[1] / "tests"

LOOK = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
from rankdeck_agent import look
request = {"op": "look", "python": sys.argv[2], "folder": sys.argv[3], "cwd": "/"}
look.answer(request, None)
def used():
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)
began, before = time.monotonic(), used()
_, body = look.answer(request, None)
print(json.dumps([time.monotonic() - began, used() - before, len(body)]))
"""


def look(folder: Path) -> tuple[float, float, int]:
    """One look by an agent on this machine: wall seconds, CPU seconds, bytes of the answer."""
    archive = folder / "agent.zip"
    archive.write_bytes(package.agent_zip())
    argv = [*node.python(), "-c", LOOK, str(archive), sys.executable, str(folder)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    wall, cpu, size = json.loads(done.stdout)
    return float(wall), float(cpu), int(size)


@contextmanager
def pool() -> Iterator[tuple[Pool, str]]:
    """64 nodes, and what they are."""
    sys.path.insert(0, str(TESTS))
    import cluster

    reason = cluster.missing()
    if reason:
        names = [PoolNode(f"127.0.1.{number}", f"127.0.1.{number}") for number in range(1, NODES + 1)]
        yield Pool("local", BackendKind.LOCAL, tuple(names), slots=1), f"loopback addresses: {reason}"
        return
    with cluster.Cluster(NODES) as made:
        os.environ["RANKDECK_SSH_CONFIG"] = str(made.ssh_config)
        nodes = tuple(PoolNode(each.name, each.name) for each in made.nodes)
        yield Pool("cluster", BackendKind.SSH, nodes, slots=1), "the test cluster's"


def check(over: Pool, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each check, without and with open connections."""
    first, again = [], []
    with tempfile.TemporaryDirectory() as home:
        for number in range(rounds):
            measure.say(f"round {number + 1} of {rounds}")
            engine = Engine(RunHome(Path(home)))
            try:
                for seconds in (first, again):
                    began = time.monotonic()
                    found = engine.check(None, over).result(300)
                    seconds.append(time.monotonic() - began)
                    if found.unreached or found.unread:
                        raise RuntimeError(f"not looked at: {found.unreached + found.unread}")
            finally:
                engine.close()
    return first, again


def main() -> int:
    options = measure.arguments(__doc__, rounds=5, quick=2)
    with node.scratch() as folder:
        looks = [look(folder) for _ in range(max(3, options.rounds))]
    with pool() as (over, what):
        first, again = check(over, options.rounds)
    made = measure.Report("Preflight", ("", "median s", "fastest", "slowest"))
    rows = {
        f"{NODES} nodes": first,
        f"{NODES} nodes, connected": again,
        "a look, wall": [wall for wall, _, _ in looks],
        "a look, CPU": [cpu for _, cpu, _ in looks],
    }
    for name, seconds in rows.items():
        made.rows.append((name, *(f"{of(seconds):.3f}" for of in (statistics.median, min, max))))
        made.figures[name] = {"seconds": seconds}
    made.bars.append(measure.Bar(f"{NODES} nodes", statistics.median(first), LIMIT_SECONDS, "s"))
    made.bars.append(measure.Bar("a look", statistics.median(rows["a look, wall"]), LOOK_SECONDS, "s"))
    made.notes.append(f"nodes: {what}")
    made.notes.append(f"a look tells {looks[0][2] / 1024:.0f} KiB on this machine")
    return made.finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
