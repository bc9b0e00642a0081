"""Asking several nodes at once, and waiting for every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from rankdeck_profiles.errors import RankdeckError

T = TypeVar("T")


async def from_all(
    asks: Mapping[str, Coroutine[Any, Any, T]],
) -> tuple[dict[str, T], dict[str, RankdeckError]]:
    """Run one coroutine for each node, all at once.

    Args:
        asks: node name -> what to do there.

    Returns:
        What succeeded, and what failed in a way that a person can act on; each by node, in the order asked.
        Any other exception ends the rest and is raised.
    """
    failed: dict[str, RankdeckError] = {}

    async def one(node: str, ask: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await ask
        except RankdeckError as error:
            failed[node] = error
            return None

    async with asyncio.TaskGroup() as group:
        tasks = {node: group.create_task(one(node, ask), name=f"ask {node}") for node, ask in asks.items()}
    done = {node: task.result() for node, task in tasks.items() if node not in failed}
    return done, {node: failed[node] for node in asks if node in failed}  # type: ignore[return-value]
