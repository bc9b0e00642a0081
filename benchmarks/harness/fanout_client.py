"""rankdeck's side of the fan-out: connects to many nodes and says how long each answer took.

    python fanout_client.py commands NAME...    logs in and runs a command; then again on open connections
    python fanout_client.py agents NAME...      starts rankdeck's agent; then asks each for an answer

Prints one line of JSON: for each of the two parts the seconds until each answer, the CPU seconds used, and
why nodes failed. RANKDECK_SSH_CONFIG says the way. Times begin when all is imported, as within a rankdeck
that runs.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from rankdeck_backends.base import NodeError
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.ssh import SshBackend
from rankdeck_backends.ssh_logins import Login, Logins
from rankdeck_profiles.model import PoolNode

COMMAND = "echo up"
TIMEOUT = 60.0
AGAIN = 5
"""How often the open connections are used; the median counts."""

_On = TypeVar("_On")


async def timed(
    targets: Sequence[_On], answer: Callable[[_On], Awaitable[Any]]
) -> tuple[dict[str, Any], list[Any]]:
    """Answers of all targets at once: what it took, and what they were."""
    times: list[float] = []
    problems: list[str] = []
    began, used = time.monotonic(), _cpu()

    async def one(target: _On) -> Any:
        try:
            found = await answer(target)
        except NodeError as error:
            problems.append(str(error))
            return None
        times.append(time.monotonic() - began)
        return found

    found = await asyncio.gather(*map(one, targets))
    return {"seconds": times, "cpu": _cpu() - used, "problems": problems}, found


async def commands(names: Sequence[str]) -> list[dict[str, Any]]:
    """Log in and run a command; once more on the open connections."""
    logins = Logins(connect_timeout=TIMEOUT)

    async def run(login: Login) -> None:
        done = await login.ssh.run(COMMAND, check=True)
        assert done.stdout == b"up\n", done

    async def cold(name: str) -> Login:
        login = await logins.connect(PoolNode(name, name))
        await run(login)
        return login

    first, found = await timed(names, cold)
    opened = [login for login in found if login is not None]
    again = [(await timed(opened, run))[0] for _ in range(AGAIN)]
    for login in opened:
        logins.let_go(login.ssh)
    await logins.close()
    return [first, _median(again)]


async def agents(names: Sequence[str]) -> list[dict[str, Any]]:
    """Start agents; once more a request to each."""
    backend = SshBackend(connect_timeout=TIMEOUT)

    async def cold(name: str) -> AgentConnection:
        return await backend.open(PoolNode(name, name))

    async def ask(connection: AgentConnection) -> None:
        await connection.request("ping")

    first, found = await timed(names, cold)
    opened = [connection for connection in found if connection is not None]
    again = [(await timed(opened, ask))[0] for _ in range(AGAIN)]
    await asyncio.gather(*(connection.close() for connection in opened))
    await backend.close()
    return [first, _median(again)]


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(rounds, key=lambda each: max(each["seconds"], default=0.0))[len(rounds) // 2]


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    what, names = {"commands": commands, "agents": agents}[sys.argv[1]], sys.argv[2:]
    print(json.dumps(asyncio.run(what(names))))
