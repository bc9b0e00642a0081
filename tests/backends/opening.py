"""Opening one node over ssh, with a limit on every wait."""

import asyncio

import pytest

from rankdeck_backends import open_backend
from rankdeck_backends.base import Backend, NodeError
from rankdeck_profiles.model import BackendKind, PoolNode

NODE = PoolNode("n1", "node")
LIMIT = 90.0
_backends: list[Backend] = []


async def open_one(node: PoolNode = NODE, *, connect_timeout: float = 30.0):
    backend = open_backend(BackendKind.SSH, connect_timeout=connect_timeout)
    _backends.append(backend)
    async with asyncio.timeout(LIMIT):
        return await backend.open(node)


async def close_backends() -> None:
    """Close the backends that `open_one` has opened."""
    while _backends:
        await _backends.pop().close()


async def refused(node: PoolNode = NODE, *, connect_timeout: float = 30.0) -> NodeError:
    with pytest.raises(NodeError) as caught:
        await open_one(node, connect_timeout=connect_timeout)
    assert caught.value.node == node.name
    assert caught.value.what.strip()
    assert caught.value.exit_status == 3
    return caught.value
