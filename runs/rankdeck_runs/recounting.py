"""Counters of faults on RDMA links, read a second time: one that grows is a fault of now, not of long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankdeck_backends.preflight.recounted import RECOUNTED
from rankdeck_profiles.model import Pool, PoolNode
from rankdeck_profiles.readings import Readings
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links

RECOUNT_AFTER = 5.0
"""Seconds between the two readings: cards refresh their counters at most once a second, and a link that is
bad enough to matter makes errors more often than that."""
_PORTS = "/sys/class/infiniband/"


async def recount(
    links: Links,
    pool: Pool,
    nodes: tuple[PoolNode, ...],
    readings: Mapping[str, Readings],
    progress: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """The files read again, by node: those that have RDMA devices, and gave an answer.

    Takes `RECOUNT_AFTER` where some node has RDMA devices, and no time where none has.
    """
    counting = tuple(node for node in nodes if _has_ports(readings[node.name]))
    if not counting:
        return {}
    progress(f"reading the links' counters again in {RECOUNT_AFTER:g} s")
    await asyncio.sleep(RECOUNT_AFTER)

    async def one(node: PoolNode) -> dict[str, Any]:
        async with links.use(pool.backend, node) as connection:
            reply = await connection.request("recount")
        files = reply.header.get("files")
        return dict(files) if isinstance(files, Mapping) else {}

    told, _ = await from_all({node.name: one(node) for node in counting})
    return told


def with_recounted(
    readings: Mapping[str, Readings], told: Mapping[str, Mapping[str, Any]]
) -> dict[str, Readings]:
    """The readings with what was read again among them (docs/preflight.md, syscalls)."""
    return {
        node: replace(each, syscalls={**each.syscalls, RECOUNTED: told[node]}) if node in told else each
        for node, each in readings.items()
    }


def _has_ports(readings: Readings) -> bool:
    return any(path.startswith(_PORTS) and "/ports/" in path for path in readings.files)
