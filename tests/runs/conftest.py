"""What the tests of the runs floor share: a plan on paper, and real runs on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile, StopPolicy
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
from runs.waiting import LIMIT

# A shared, busy machine is no reason to fail a property.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

RING = Path(__file__).parent.parent / "ranks" / "socket_ring.py"


@pytest.fixture
def plan() -> dict:
    """plan.json of two nodes with two ranks each, started without a launcher."""
    return {
        "framework": "pytorch",
        "world_size": 4,
        "nodes": [
            {
                "node": name,
                "node_rank": node_rank,
                "address": f"10.0.0.{node_rank + 1}",
                "ranks": [2 * node_rank, 2 * node_rank + 1],
                "processes": [
                    {"ranks": [2 * node_rank + local], "local_ranks": [local], "launcher_args": 0}
                    for local in (0, 1)
                ],
            }
            for node_rank, name in enumerate(("n1", "n2"))
        ],
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunHome:
    """Where runs are recorded; the nodes' own folder is apart from it."""
    monkeypatch.setenv("RANKDECK_NODE_DIR", str(tmp_path / "node"))
    return RunHome(tmp_path / "home")


@pytest.fixture
def engine(home: RunHome) -> Iterator[Engine]:
    """An engine, closed at the end; runs that a test leaves are ended."""
    made = Engine(home)
    try:
        yield made
        for summary in home.list(active_tests=True):
            if summary.state not in ("succeeded", "failed", "stopped"):
                made.stop(summary.id, force=True).result(LIMIT)
    finally:
        made.close()


@pytest.fixture
def pool() -> Pool:
    """Two nodes on this machine, two ranks each."""
    return Pool(
        "two",
        BackendKind.LOCAL,
        (PoolNode("127.0.0.1", "127.0.0.1"), PoolNode("127.0.0.2", "127.0.0.2")),
        slots=2,
    )


@pytest.fixture
def ring(tmp_path: Path) -> Callable[..., Profile]:
    """Makes profiles of the socket ring, each rank with a copy of all it writes in `copies/`."""

    def make(*args: str, **changes: object) -> Profile:
        values: dict = {
            "name": "ring",
            "framework": "pytorch",
            "script": str(RING),
            "args": args,
            "workdir": str(tmp_path),
            "python": sys.executable,
            "stop": StopPolicy(grace=10.0),
        }
        return Profile(**{**values, **changes})

    return make


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Profile]:
    """Makes profiles that run the given Python source as each rank's program."""

    def make(source: str, **changes: object) -> Profile:
        path = tmp_path / "program.py"
        path.write_text("import os, signal, sys, time\nRANK = int(os.environ['RANK'])\n" + source)
        values: dict = {
            "name": "program",
            "framework": "pytorch",
            "script": str(path),
            "workdir": str(tmp_path),
            "python": sys.executable,
            "stop": StopPolicy(grace=10.0),
        }
        return Profile(**{**values, **changes})

    return make
