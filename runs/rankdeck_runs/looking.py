"""Asking a node for all that preflight reads there, and how its clock stands."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles import frameworks
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_profiles.readings import Readings
from rankdeck_runs.values import number

LOOK_TIMEOUT = 60.0
"""Seconds for a node to tell all: the node itself gives up on what hangs after 20."""
LAUNCH_PATIENCE = 5.0
"""Seconds for any part of a look that a launch waits for: one odd tool on one node holds up the run no longer
than 8 s. What is not answered by then is not known; `rankdeck check` waits for up to 20 s."""
SETUP_TIMEOUT = 600.0
"""The same where setup lines are run first: loading modules from a cold file server takes minutes."""
_PINGS = 5
"""The best of so many round trips tells the clock: one that met a busy moment tells little."""


async def look(connection: AgentConnection, request: Mapping[str, Any]) -> Readings:
    """What preflight reads on one node.

    Args:
        connection: to the node.
        request: of `look_request`.

    Raises:
        NodeError: the node is gone, gave no answer in time, or one that can't be read.
    """
    timeout = SETUP_TIMEOUT if request["setup"] else LOOK_TIMEOUT
    reply = await connection.request("look", timeout=timeout, **request)
    try:
        readings = Readings.from_json(json.loads(reply.body))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NodeError(
            connection.node, Step.AGENT, f"what it told of itself can't be read: {error}"
        ) from None
    ssh = {"state": "ok", **({} if connection.noise is None else {"noise": connection.noise})}
    return replace(readings, syscalls={**readings.syscalls, "ssh": ssh})


def look_request(
    profile: Profile | None,
    pool: Pool,
    node: PoolNode,
    nodes: tuple[PoolNode, ...],
    *,
    in_a_hurry: bool = False,
) -> dict[str, Any]:
    """The fields of a node's `look` (docs/agent-protocol.md).

    Args:
        profile: what is to be run; None: nothing in particular.
        pool: the pool.
        node: which node is asked.
        nodes: all that the run uses.
        in_a_hurry: a launch waits for it.
    """
    local = pool.backend is BackendKind.LOCAL
    paths = [{"path": "~", "purpose": "home"}]
    request: dict[str, Any] = {
        "python": "python3",
        "setup": [],
        "cwd": "",
        "remove": [],
        "env": {},
        "peers": [] if local else [other.host for other in nodes if other is not node],
        "paths": paths,
    }
    if in_a_hurry:
        request["patience"] = LAUNCH_PATIENCE
    if profile is None:
        return request
    paths.insert(0, {"path": profile.workdir, "purpose": "cwd"})
    if "/" in profile.python:
        paths.append({"path": profile.python, "purpose": "python"})
    framework = frameworks.get(profile.framework)
    if framework.asks_mpi:
        request["mpirun"] = framework.option(profile, "mpirun") or "mpirun"
    return {
        **request,
        "python": profile.python or "python3",
        "setup": list(profile.setup),
        "cwd": profile.workdir,
        "env": dict(profile.env),
        "script": profile.script,
    }


def silent_tools(readings: Readings) -> tuple[str, ...]:
    """The programs that gave no answer in their time, each once."""
    names = (each.argv[0].rpartition("/")[2] for each in readings.commands if each.timed_out)
    return tuple(dict.fromkeys(names))


async def clock(connection: AgentConnection) -> tuple[float, float]:
    """How far the node's clock is ahead of this machine's, and how far off that may be, in seconds.

    Raises:
        NodeError: the node is gone or silent.
    """
    best: tuple[float, float] | None = None
    for _ in range(_PINGS):
        began, sent = time.monotonic(), time.time()
        reply = await connection.request("ping")
        took = time.monotonic() - began
        told = number(reply.header, "time")
        if told is not None and (best is None or took / 2 < best[1]):
            best = told - (sent + took / 2), took / 2
    if best is None:
        raise NodeError(connection.node, Step.AGENT, "it does not tell the time")
    return best


def with_clocks(
    readings: Mapping[str, Readings], clocks: Mapping[str, tuple[float, float]]
) -> dict[str, Readings]:
    """The readings with each clock against the first node's.

    Args:
        readings: by node, the head first.
        clocks: by node, as `clock` gives them.
    """
    head = clocks.get(next(iter(readings), ""))
    found = dict(readings)
    for node, (offset, error) in clocks.items():
        if head is None or node not in found:
            continue
        first = clocks[node] is head
        told = {
            "clock_offset_s": 0.0 if first else round(offset - head[0], 6),
            "clock_error_s": 0.0 if first else round(error + head[1], 6),
        }
        found[node] = replace(found[node], syscalls={**found[node].syscalls, **told})
    return found
