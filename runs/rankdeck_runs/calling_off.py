"""Calling a launch off while it is under way: who was not asked yet never is; who was, is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rankdeck_runs.errors import NotAskedError

T = TypeVar("T")


async def unless_called_off(
    work: Coroutine[Any, Any, T], called_off: asyncio.Event, is_asked: Callable[[], bool]
) -> T:
    """One node's start.

    A node that was asked already is waited for: it may start its ranks, and is to be stopped once it has said
    where they are.

    Args:
        work: starts the node.
        called_off: set once nobody wants the launch any more.
        is_asked: whether the node was asked to start.

    Raises:
        NotAskedError: it was called off before the node was asked.
    """
    task = asyncio.create_task(work)
    off = asyncio.create_task(called_off.wait())
    try:
        await asyncio.wait({task, off}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and not is_asked():
            raise NotAskedError("not asked to start: the launch was called off")
        return await task
    finally:
        off.cancel()
        task.cancel()
        await asyncio.gather(task, off, return_exceptions=True)
