"""Asking every node of a pool what it is, and all that preflight reads there, at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.facts import from_probe
from rankdeck_backends.preflight.nvidia_smi import Smi
from rankdeck_profiles import frameworks
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.facts import GpuFacts, NodeFacts
from rankdeck_profiles.leftovers import ASKED_FOR
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_profiles.planner import DEFAULT_PORT
from rankdeck_profiles.readings import Readings
from rankdeck_runs.errors import without_node
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.looking import clock, look, look_request
from rankdeck_runs.staying import while_answering

Progress = Callable[[str], None]
Answers = tuple[NodeFacts, Readings, tuple[float, float]]
"""Facts, readings, and the clock."""

_log = logging.getLogger(__name__)

PORTS_TRIED = 200
"""How many ports from 29500 up the head node may try before it gives up on proposing one."""
PROBE_TIMEOUT = 30.0
"""Seconds for a node to say what it is."""
ASKED_TIMEOUT = 600.0
"""The same with the framework's questions: it runs the profile's setup lines, and loading modules from a
cold file server takes minutes."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What one node told."""

    facts: NodeFacts
    readings: Readings
    clock: tuple[float, float]
    """How far ahead of this machine's its clock is, and how far off that may be, in seconds."""


async def probe(
    links: Links, pool: Pool, progress: Progress
) -> tuple[dict[str, NodeFacts], dict[str, RankdeckError]]:
    """Ask every node of a pool for its facts alone; what failed, by node, comes second."""
    if len(pool.nodes) > 1:
        progress(f"asking {len(pool.nodes)} nodes of pool {pool.name}")
    count = _Count(len(pool.nodes), progress)

    async def probe_one(node: PoolNode) -> NodeFacts:
        with count.asking():
            async with links.use(pool.backend, node) as connection:
                facts = await _facts(connection, node, pool, {})
        count.answered(node, connection.note)
        return facts

    return await from_all({node.name: probe_one(node) for node in pool.nodes})


async def probe_all(
    links: Links,
    profile: Profile | None,
    pool: Pool,
    nodes: tuple[PoolNode, ...],
    progress: Progress,
    asked: Mapping[str, Any],
    *,
    in_a_hurry: bool,
) -> tuple[dict[str, Probed], dict[str, RankdeckError]]:
    """Ask nodes for facts, readings and the time.

    Args:
        links: to the nodes.
        profile: what is to be run there; None: nothing in particular.
        pool: theirs.
        nodes: those of the pool that are asked.
        progress: told of each that answered.
        asked: the framework's `questions`.
        in_a_hurry: a launch waits for it.

    Returns:
        What each told, and for each that did not why, by node.
    """
    count = _Count(len(nodes), progress)
    looks: dict[str, asyncio.Future[Readings]] = {}

    async def probe_one(node: PoolNode) -> Probed:
        with count.asking():
            async with links.use(pool.backend, node) as connection:
                facts, readings, told = await all_of(node, connection)
        count.answered(node, connection.note)
        return Probed(replace(facts, readings=readings, gpus=facts.gpus or gpus_of(readings)), readings, told)

    async def all_of(node: PoolNode, connection: AgentConnection) -> Answers:
        answers = asking(node, connection)
        if not in_a_hurry:
            return await answers
        found, lost = await while_answering([connection], answers)
        if found is None:
            raise lost[connection.node]
        return found

    async def asking(node: PoolNode, connection: AgentConnection) -> Answers:
        return await asyncio.gather(
            _facts(connection, node, pool, asked), looked(node, connection), clock(connection)
        )

    async def looked(node: PoolNode, connection: AgentConnection) -> Readings:
        """The local backend's nodes are one machine: the first to be reached looks for all."""
        machine = pool.name if pool.backend is BackendKind.LOCAL else node.name
        if machine not in looks:
            request = look_request(profile, pool, node, nodes, in_a_hurry=in_a_hurry)
            if profile is None and "mpi" in asked:
                request["mpirun"] = asked["mpi"]["mpirun"]
            looks[machine] = asyncio.ensure_future(_readings(connection, request, progress))
            looks[machine].add_done_callback(_looked_at)
        return await asyncio.shield(looks[machine])

    return await from_all({node.name: probe_one(node) for node in nodes})


def _looked_at(done: asyncio.Future[Readings]) -> None:
    """Take the exception: where all who waited were cancelled, asyncio would tell of it on the terminal."""
    if not done.cancelled():
        done.exception()


def questions(profile: Profile) -> dict[str, Any]:
    """What a profile's framework asks of the nodes beside what every probe tells.

    Args:
        profile: the profile.

    Returns:
        Fields of the probe's request (docs/agent-protocol.md); empty for most frameworks.
    """
    framework = frameworks.get(profile.framework)
    where = {
        "python": profile.python or "python3",
        "setup": list(profile.setup),
        "cwd": profile.workdir,
        "remove": [],
    }
    asked: dict[str, Any] = {}
    if framework.asks_mpi:
        mpirun = framework.option(profile, "mpirun") or "mpirun"
        asked["mpi"] = {"mpirun": mpirun, "env": dict(profile.env), **where}
    if framework.software:
        asked["software"] = {"names": list(framework.software), **where}
    return asked


def gpus_of(readings: Readings) -> tuple[GpuFacts, ...]:
    """The GPUs that preflight's own call of nvidia-smi named: it waits longer than a probe's 1.2 s.

    Without persistence mode nvidia-smi takes seconds on a node with many GPUs; taken for a node without any,
    such a one would be given one rank.
    """
    return tuple(
        GpuFacts(
            int(gpu.index), gpu.text("name") or "", gpu.text("uuid") or "", _whole(gpu.number("memory.total"))
        )
        for gpu in Smi(readings).gpus
        if gpu.index.isdecimal()
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


class _Count:
    """Says which node has answered, and how many have."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._reached = 0
        self._failed = 0
        self._told = 0.0
        self._progress = progress

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count one that gives no answer, and say how many, once a second: their reasons come together."""
        try:
            yield
        except RankdeckError:
            self._failed += 1
            if self._total > 1 and time.monotonic() - self._told >= 1.0:
                self._told = time.monotonic()
                self._progress(f"{self._reached} of {self._total} answered, {self._failed} gave no answer")
            raise

    def answered(self, node: PoolNode, note: str) -> None:
        self._reached += 1
        way = f", {note}" if note else ""
        self._progress(f"{node.name} answered ({self._reached} of {self._total}){way}")


async def _facts(
    connection: AgentConnection, node: PoolNode, pool: Pool, asked: Mapping[str, Any]
) -> NodeFacts:
    # A local node is one loopback address: the port must be free on that. Elsewhere rank 0 listens on all
    # addresses.
    address = node.host if pool.backend is BackendKind.LOCAL else ""
    reply = await connection.request(
        "probe",
        timeout=ASKED_TIMEOUT if asked else PROBE_TIMEOUT,
        ports={"address": address, "start": DEFAULT_PORT, "count": PORTS_TRIED},
        leftovers=list(ASKED_FOR),
        **asked,
    )
    return from_probe(node, pool, reply.header, reached_at=connection.reached_at)


async def _readings(connection: AgentConnection, request: Mapping[str, Any], progress: Progress) -> Readings:
    """What was read there; where that failed, only why: it is a finding, and hinders no launch by itself."""
    try:
        return await look(connection, request)
    except RankdeckError as error:
        if connection.closed.done():
            raise
        told = without_node(connection.node, error.message)
        _log.info("%s could not be looked at: %s", connection.node, told)
        brief = told.strip().splitlines()[-1] if told.strip() else "no reason was given"
        progress(f"{connection.node} could not be looked at, nothing is known of it: {brief}")
        return Readings(syscalls={"ssh": {"state": "ok", "unread": brief}})
