"""Proof that the record's logs are the node's: sizes and hashes compared, what differs brought again."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdeck_backends.connection import AgentConnection
from rankdeck_runs import layout
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.targets import Target
from rankdeck_runs.values import integer, text

CHUNK = 1 << 20
"""Bytes hashed, or brought again, at once: the most that one `read` gives."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A log as its node has it."""

    size: int
    sha256: str = ""
    """Of these bytes, in hexadecimal; empty: not asked for."""


@dataclass(frozen=True, slots=True)
class Proof:
    """How a comparison ended."""

    files: Mapping[str, Digest]
    """Every log that the node has, by the agent's name for it."""
    unverified: tuple[str, ...] = ()
    """Those whose copy holds bytes that the node does not have (any more)."""

    def to_json(self) -> dict[str, Any]:
        """What a `node_fetched` event has of it."""
        files = {name: [digest.size, digest.sha256] for name, digest in self.files.items()}
        return {"files": files, "unverified": list(self.unverified)}


async def digests(
    connection: AgentConnection, directory: str, names: Sequence[str], writer: RunWriter, *, hashed: bool
) -> dict[str, Digest]:
    """What a node has of these logs; those that are not there have no bytes.

    Raises:
        NodeRefusal: it knows nothing of the run.
        NodeError: the connection is gone.
    """
    found: dict[str, Digest] = {}

    def take(header: Mapping[str, Any], body: bytes) -> None:
        match header.get("ev"):
            case "digest":
                digest = Digest(integer(header, "size") or 0, text(header, "sha256"))
                found[text(header, "name")] = digest
                if hashed:
                    writer.live.add_proven(digest.size)
            case "hashing":
                writer.live.add_proven(integer(header, "bytes") or 0)

    await connection.stream("digest", take, dir=directory, names=list(names), hash=hashed)
    return found


async def prove(
    connection: AgentConnection, directory: str, target: Target, writer: RunWriter, names: Sequence[str]
) -> Proof | None:
    """Compare the record's copies of a node's logs with the node's own; what differs is mended.

    Args:
        connection: to the node.
        directory: the run's folder on it.
        target: the node.
        writer: has the copies.
        names: its logs.

    Returns:
        None if the node has bytes that are not here: they are to be followed first.

    Raises:
        NodeRefusal, NodeError: as `digests` does.
        OSError: the record can't be read or written.
    """
    there = await digests(connection, directory, names, writer, hashed=True)
    unverified = []
    for name, digest in there.items():
        file = layout.from_protocol(name, target.node_rank)
        if file is None:
            continue
        here = await asyncio.to_thread(_size, writer.record.log_path(file))
        if here < digest.size:
            writer.mirror.forget_sizes()
            return None
        copied = await asyncio.to_thread(_hash, writer, file, digest.size)
        if copied != digest.sha256:
            await _mend(connection, directory, writer, name, file, digest.size)
            copied = await asyncio.to_thread(_hash, writer, file, digest.size)
        if here > digest.size or copied != digest.sha256:
            unverified.append(name)
    return Proof({name: digest for name, digest in there.items() if digest.size}, tuple(unverified))


async def _mend(
    connection: AgentConnection, directory: str, writer: RunWriter, name: str, file: str, size: int
) -> None:
    """Put the node's bytes over the copy's, piece by piece: what is right already stays meanwhile."""
    at = 0
    while at < size:
        reply = await connection.request(
            "read", dir=directory, name=name, offset=at, length=min(CHUNK, size - at)
        )
        if not reply.body:
            return
        writer.mirror.replace(file, at, reply.body)
        at += len(reply.body)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _hash(writer: RunWriter, file: str, size: int) -> str:
    made = hashlib.sha256()
    if not size:
        return made.hexdigest()
    with open(writer.record.log_path(file), "rb") as copy:
        while size and (data := copy.read(min(CHUNK, size))):
            made.update(data)
            size -= len(data)
            writer.live.add_proven(len(data))
    return made.hexdigest()
