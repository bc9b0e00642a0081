"""Whether the person has a Kerberos ticket: without one, GSSAPI lets nobody in."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

PROGRAM = "klist"
_LIMIT = 5.0
_HOLDS = 30.0
"""Seconds that an answer is good for: many nodes are opened at once."""


class Ticket:
    """Asks `klist -s`, at most once in a while."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._told: bool | None = None
        self._at = float("-inf")

    async def there(self) -> bool | None:
        """Whether there is a valid ticket; None: that cannot be told here."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._at > _HOLDS:
                self._told, self._at = await _ask(), now
            return self._told


async def _ask() -> bool | None:
    if shutil.which(PROGRAM) is None:
        return None
    quiet = asyncio.subprocess.DEVNULL
    # klist(1), -s: status 1 "if the credentials cache cannot be read or is expired", else 0.
    process = await asyncio.create_subprocess_exec(PROGRAM, "-s", stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(_LIMIT):
            return await process.wait() == 0
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
