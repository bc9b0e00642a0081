"""The engine's thread: an asyncio loop of its own, so that nothing the network does can hold up a screen."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

CLOSE_SECONDS = 10.0
"""How long the thread may take to end what it does; connections themselves get 2 s each, all at once."""


class NetworkThread:
    """A thread with an asyncio loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="rankdeck network", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; give its result as a future for other threads.

        Raises:
            RuntimeError: `close` was called: nobody would ever run it.
        """
        with self._lock:
            if self._closing:
                work.close()
                raise RuntimeError("the engine is closed")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, callback: Callable[[], object]) -> None:
        """Call a function on the loop, soon."""
        self._loop.call_soon_threadsafe(callback)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel all that runs, run `last`, and end the thread. Nothing may be submitted any more."""
        with self._lock:  # what was submitted before is on the loop before this, and is ended by it
            self._closing = True
            ending = asyncio.run_coroutine_threadsafe(_end_all(last), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


async def _end_all(last: Coroutine[Any, Any, None]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last
