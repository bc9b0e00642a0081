"""Runs of the socket ring on the test cluster: what to start on each node, and what came back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from rankdeck_backends.connection import AgentConnection

RING = Path(__file__).parents[1] / "ranks/socket_ring.py"


def node_plan(
    cluster: Cluster, run: str, node_rank: int, ranks_per_node: int, args: list[str]
) -> dict[str, Any]:
    """The agent's plan for one node: ring ranks, one process each."""
    world = len(cluster.nodes) * ranks_per_node
    first = node_rank * ranks_per_node
    env = {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": cluster.nodes[0].address,
        "MASTER_PORT": "29400",
        "NODE_RANK": str(node_rank),
    }
    processes = [
        {
            "ranks": [first + local],
            "local_ranks": [local],
            "launcher": [],
            "program": ["python3", str(RING), *args],
            "cwd": "~",
            "env": {**env, "RANK": str(first + local), "LOCAL_RANK": str(local)},
            "fill": True,
        }
        for local in range(ranks_per_node)
    ]
    return {
        "run": run,
        "node": cluster.nodes[node_rank].name,
        "node_rank": node_rank,
        "world_size": world,
        "log_dir": None,
        "processes": processes,
        "remove": [],
        "setup": [],
        "stop": {"signal": "TERM", "grace": 5.0, "on_rank_failure": "stop"},
    }


@dataclass
class Follower:
    """All that the follows of one node's run have brought, over one connection or several."""

    directory: str
    logs: dict[str, bytearray] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    state: str | None = None

    async def follow(self, connection: AgentConnection) -> None:
        """Follows from where the last one stopped, until the node has ended or the connection is lost."""
        reply = await connection.stream(
            "follow",
            self._take,
            dir=self.directory,
            since=self.events[-1]["seq"] if self.events else 0,
            logs="all",
            offsets={name: len(data) for name, data in self.logs.items()},
            samples=0,
        )
        self.state = reply.header["state"]

    def _take(self, header: dict[str, Any], body: bytes) -> None:
        if header["ev"] == "event":
            event = header["event"]
            assert event["seq"] == len(self.events) + 1, f"after {len(self.events)} events came {event}"
            self.events.append(event)
        elif header["ev"] == "logs":
            at = 0
            for name, offset, length in header["parts"]:
                data = self.logs.setdefault(name, bytearray())
                assert offset == len(data), f"{name} has {len(data)} bytes, then came {header}"
                data += body[at : at + length]
                at += length
            assert at == len(body), header

    def named(self, name: str) -> list[dict[str, Any]]:
        """Events of one name, in order."""
        return [event for event in self.events if event["ev"] == name]


async def until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    """Waits, at most limit seconds."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - what it looks at knows nothing of events
            await asyncio.sleep(0.05)
