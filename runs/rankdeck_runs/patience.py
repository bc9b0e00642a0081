"""Time limits that leave out the time a person takes to answer a login's question."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from rankdeck_backends.asking import Accepted, Asker, SecretQuestion, ShownKey

_T = TypeVar("_T")
_LOOK_SECONDS = 0.5


class PatientAsker:
    """Passes questions on, and knows whether one is open.

    Args:
        asker: asks the person.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.open = False

    async def host_keys(self, keys: Sequence[ShownKey]) -> Accepted:
        """Pass it on."""
        self.open = True
        try:
            return await self._asker.host_keys(keys)
        finally:
            self.open = False

    async def secrets(self, question: SecretQuestion) -> Sequence[str] | None:
        """Pass it on."""
        self.open = True
        try:
            return await self._asker.secrets(question)
        finally:
            self.open = False


async def within(work: Coroutine[Any, Any, _T], seconds: float, asker: PatientAsker | None) -> _T:
    """The work's result.

    Args:
        work: what is to be done.
        seconds: how long it may take; time in which a question is open does not count.
        asker: asks the questions, if anything does.

    Raises:
        TimeoutError: it took longer, and is cancelled.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    left = seconds
    try:
        while left > 0:
            began, asking = loop.time(), asker is not None and asker.open
            await asyncio.wait({task}, timeout=min(left, _LOOK_SECONDS))
            if task.done():
                return task.result()
            if not asking:
                left -= loop.time() - began
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
