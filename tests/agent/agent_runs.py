"""Plans, runs and processes for the agent's tests."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_client import Client


def end_all_of(path: Path) -> None:
    """End what still belongs to a test's own node folder (named in each process's environment)."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environ = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            if f"RANKDECK_NODE_DIR={path}".encode() in environ:
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue


def rank_plan(*programs: list[str] | str, run: str = "run-1", **changes: Any) -> dict[str, Any]:
    """A per-process plan: one rank a program; a text is run by sh."""
    world = len(programs)
    plan: dict[str, Any] = {
        "run": run,
        "node": "n1",
        "node_rank": 0,
        "world_size": world,
        "log_dir": None,
        "processes": [
            {
                "ranks": [rank],
                "local_ranks": [rank],
                "launcher": [],
                "program": ["sh", "-c", program] if isinstance(program, str) else program,
                "cwd": "/",
                "env": {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)},
                "fill": False,
            }
            for rank, program in enumerate(programs)
        ],
        "remove": [],
        "setup": [],
        "stop": {"signal": "TERM", "grace": 20.0, "on_rank_failure": "stop"},
    }
    plan.update(changes)
    return plan


class Run:
    """A started run and one follow of it."""

    def __init__(self, client: Client, plan: dict[str, Any], *, logs: Any = "all", **follow: Any) -> None:
        started = client.ask("start", run=plan["run"], dir=None, plan=plan, secrets=follow.pop("secrets", {}))
        self.client = client
        self.dir: str = started["dir"]
        self.supervisor: int = started["pid"]
        self.follow = client.send("follow", dir=self.dir, since=0, logs=logs, offsets={}, **follow)

    def event(self, ev: str, limit: float = 60.0, **fields: Any) -> dict[str, Any]:
        return self.client.wait_event(self.follow, ev, limit, **fields)

    def events(self, ev: str | None = None) -> list[dict[str, Any]]:
        return self.client.events(self.follow, ev)

    def pids(self) -> list[int]:
        """The ranks' pids, once all run."""
        count = json.loads(Path(self.dir, "plan.json").read_text())["world_size"]
        self.client.wait_for(lambda: len(self.events("rank_started")) == count, f"{count} running ranks")
        return [event["pid"] for event in sorted(self.events("rank_started"), key=lambda e: e["rank"])]

    def end(self, limit: float = 60.0) -> str:
        return self.client.reply(self.follow, limit)[0]["state"]

    def log(self, name: str) -> bytes:
        return self.client.log(self.follow, name)

    def wait_log(self, name: str, needle: bytes, limit: float = 60.0) -> None:
        self.client.wait_for(lambda: needle in self.log(name), f"{needle!r} in {name}", limit)

    def stop(self, limit: float = 60.0, **fields: Any) -> dict[str, Any]:
        return self.client.ask("stop", limit, dir=self.dir, **fields)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def shim_of(run: Run, rank: int) -> int:
    path = Path(run.dir, f"ranks/{rank}.start.json")
    wait_until(path.exists, "the shim's record")
    return int(json.loads(path.read_text())["shim_pid"])


def wait_until(condition: Callable[[], Any], what: str, limit: float = 60.0) -> None:
    """Until the condition holds; for what no frame tells of."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {limit} s"
        time.sleep(0.02)
