"""Nodes that are gone once the others have tried to reach them: told as that, not as what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, PoolNode
from rankdeck_profiles.readings import Readings
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links

PATIENCE = 5.0
"""Seconds for a node that answered a moment ago to answer once more."""


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
