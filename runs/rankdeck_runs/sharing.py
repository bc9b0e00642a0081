"""Whether a folder is one and the same on all nodes: the head writes a token, others find it and answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from rankdeck_backends.connection import AgentConnection
from rankdeck_runs.gathering import from_all
from rankdeck_runs.values import number, text

PATIENCE = 10.0
"""Seconds for the token to be seen: a network file system may look at a folder anew only after some."""


async def share(
    connections: Mapping[str, AgentConnection], names: Sequence[str], path: str, seconds: float
) -> dict[str, dict[str, Any]]:
    """What each node has to say of a folder, as an entry of `shared` (docs/preflight.md, between nodes).

    Nothing is left in the folder. Nodes that are lost meanwhile, and a folder that the head can't write to,
    give no entry of the others.

    Args:
        connections: to the nodes, by name.
        names: all of them, the head first.
        path: the folder, the same on each.
        seconds: how long the others wait for the token.
    """
    head, *others = names
    token = secrets.token_hex(8)
    wrote, _ = await from_all({head: _step(connections[head], path, token, step="write")})
    if head not in wrote:
        return {}
    entry = {"path": path, "writer": head}
    found: dict[str, dict[str, Any]] = {head: {**entry, "state": text(wrote[head], "state")}}
    if found[head]["state"] != "ok":
        return found
    numbers = {node: place for place, node in enumerate(others, start=1)}
    seen, _ = await from_all(
        {
            node: _step(connections[node], path, token, step="find", node=numbers[node], seconds=seconds)
            for node in others
        }
    )
    answers, _ = await from_all(
        {head: _step(connections[head], path, token, step="collect", nodes=list(numbers.values()))}
    )
    answered = answers.get(head, {}).get("answered", {})
    for node, told in seen.items():
        found[node] = {
            **entry,
            "state": text(told, "state"),
            "seconds": number(told, "seconds"),
            "answered": answered.get(str(numbers[node]), "missing"),
        }
    await from_all(
        {node: _step(connections[node], path, token, step="remove", node=numbers[node]) for node in seen}
    )
    return found


async def _step(
    connection: AgentConnection, path: str, token: str, *, step: str, **fields: Any
) -> Mapping[str, Any]:
    reply = await connection.request("token", path=path, token=token, step=step, **fields)
    return reply.header
