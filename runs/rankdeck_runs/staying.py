"""Nodes that go while they are looked at: told as that, not as what came of it, and not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, PoolNode
from rankdeck_profiles.readings import Readings
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds for a node that answered a moment ago to answer once more."""


SILENCE = 5
"""Seconds without a word from a node, which is asked every second, after which a launch waits no longer. TCP
repeats what was lost after 0.2, 0.6 and 1.4 s (RFC 6298); a connection that no launch waits for has 25."""


async def while_answering(
    connections: Iterable[AgentConnection], work: Coroutine[Any, Any, T]
) -> tuple[T | None, dict[str, RankdeckError]]:
    """What some work among nodes came to; or nothing and, by name, why the nodes that fell silent did.

    Args:
        connections: to the nodes that it waits for.
        work: is cancelled when one of them falls silent, or is gone.
    """
    task = asyncio.ensure_future(work)
    guards = [asyncio.create_task(each.silence(SILENCE), name=f"hear {each.node}") for each in connections]
    try:
        await asyncio.wait({task, *guards}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result(), {}
        # What takes one node away often takes others in the same second.
        await asyncio.wait(guards, timeout=0.5)
        lost = [guard.result() for guard in guards if guard.done()]
        return None, {error.node: error for error in lost}
    finally:
        for each in (task, *guards):
            each.cancel()
        await asyncio.gather(task, *guards, return_exceptions=True)


async def gone(links: Links, pool: Pool, nodes: Iterable[PoolNode]) -> dict[str, RankdeckError]:
    """Which nodes don't answer any more, and why, by name."""

    async def ask(node: PoolNode) -> None:
        async with links.use(pool.backend, node) as connection:
            await connection.request("ping", timeout=PATIENCE)

    _, failed = await from_all({node.name: ask(node) for node in nodes})
    return failed


def without(
    readings: Mapping[str, Readings], lost: Iterable[str], addresses: Mapping[str, str]
) -> dict[str, Readings]:
    """The readings without lost nodes, and without what the others tried with them.

    Args:
        readings: by node.
        lost: names.
        addresses: node -> its address.
    """
    names = set(lost)
    if not names:
        return dict(readings)
    places = {addresses[name] for name in names if name in addresses}

    def rest(entries: object, key: str, left_out: set[str]) -> list[Any]:
        known: Sequence[Any] = entries if isinstance(entries, list) else ()
        return [each for each in known if not (isinstance(each, dict) and each.get(key) in left_out)]

    kept = {}
    for node, each in readings.items():
        if node in names:
            continue
        told = {name: value for name, value in each.syscalls.items() if name != "shared"}
        for name, key, left_out in (("connects", "to", names), ("reverse_dns", "address", places)):
            if name in told:
                told[name] = rest(told[name], key, left_out)
        kept[node] = replace(each, syscalls=told)
    return kept
