"""A run on one node of this machine, started over the agent's protocol."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdeck_backends import open_backend
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.model import BackendKind, PoolNode


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for all that a benchmark writes, node folder and record included; removed at the end."""
    # `timeout` ends us with SIGTERM: what was started must be ended then, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="rankdeck-bench-"))
    os.environ["RANKDECK_NODE_DIR"] = str(folder / "node")
    os.environ["RANKDECK_HOME"] = str(folder / "home")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def connect() -> AgentConnection:
    """A new agent on this machine."""
    return await open_backend(BackendKind.LOCAL).open(PoolNode("node", "127.0.0.1"))


def plan(program: Sequence[str], ranks: int) -> dict[str, Any]:
    """The plan of one node on which every rank runs `program`."""
    run = f"bench-{uuid.uuid4().hex[:8]}"
    return {
        "run": run,
        "node": "node",
        "node_rank": 0,
        "world_size": ranks,
        "log_dir": None,
        "processes": [
            {
                "ranks": [rank],
                "local_ranks": [rank],
                "launcher": [],
                "program": list(program),
                "cwd": "/",
                "env": {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)},
                "fill": False,
            }
            for rank in range(ranks)
        ],
        "remove": [],
        "setup": [],
        "stop": {"signal": "TERM", "grace": 5.0, "on_rank_failure": "stop"},
    }


@dataclass(frozen=True, slots=True)
class Run:
    """A started run: its folder on the node, and its supervisor's pid."""

    directory: str
    supervisor: int


async def start(connection: AgentConnection, what: dict[str, Any]) -> Run:
    """Start a run."""
    reply = await connection.request("start", run=what["run"], dir=None, plan=what, secrets={}, timeout=60.0)
    return Run(reply.header["dir"], reply.header["pid"])


async def stop(connection: AgentConnection, run: Run) -> None:
    """End all of a run and wait until it is gone."""
    reply = await connection.stream(
        "stop", lambda header, body: None, dir=run.directory, signal="KILL", grace=0.0, force=True
    )
    if not reply.header["gone"]:
        raise SystemExit(f"{run.directory}: still there after a stop by force: {reply.header['left']}")


async def ended(connection: AgentConnection, run: Run) -> None:
    """Wait until a run whose ranks end by themselves has succeeded."""
    reply = await connection.stream(
        "follow", lambda header, body: None, dir=run.directory, since=0, logs=[], offsets={}, samples=0
    )
    if reply.header["state"] != "succeeded":
        raise SystemExit(f"{run.directory}: the run has {reply.header['state']}")


@asynccontextmanager
async def running(program: Sequence[str], ranks: int) -> AsyncIterator[Run]:
    """A run that nobody is connected to; ended at the end."""
    connection = await connect()
    try:
        run = await start(connection, plan(program, ranks))
    finally:
        await connection.close()
    try:
        yield run
    finally:
        connection = await connect()
        await stop(connection, run)
        await connection.close()


def python() -> list[str]:
    """The interpreter as light as it goes: the ranks measure the launcher, not Python's start."""
    return [sys.executable, "-I", "-S"]
