"""Whether the nodes of a run reach each other, over the addresses that its ranks will use."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_profiles.readings import Readings
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.sharing import share
from rankdeck_runs.values import integer, objects

ALL_PAIRS_UP_TO = 16
"""Nodes of which every one tries every other; beyond, a ring and random pairs."""
RANDOM_PAIRS = 3
"""How many others each node tries beside its neighbours in the ring: a firewall that is wrong on one node
is met by its own six or more connections, one between two nodes by luck."""
REACH_SECONDS = 3.0
"""How long a connection may take: the first packet and one repetition may be lost (RFC 6298: 1 s, then 2)."""
LOG_IN_SECONDS = 8.0
"""How long a log-in from node to node may take."""
_LISTEN_SECONDS = 45.0
"""After so long a listener ends by itself: whoever asked for it is gone."""
_SETTLE_SECONDS = 10.0
_CALLED_OFF_SECONDS = 0.5
"""The same where nobody waits for the meeting any more: a node of it has fallen silent, as a rule."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Who is to meet.

    Attributes:
        pool: the pool.
        nodes: the nodes of it, the head first.
        addresses: node -> the address by which the others know it.
        interfaces: node -> the interface that has that address, where known.
        port: the rendezvous port on the head; None: none is needed.
        patience: seconds for the name service to name an address; 0: it is not asked.
        folder: one that is to be the same on all nodes; None: none need be.
        sharing: seconds for what one node writes there to be seen by the others.
        by_ssh: node -> the words after `ssh` that lead there, where the head's mpirun does so; else empty.
    """

    pool: Pool
    nodes: tuple[PoolNode, ...]
    addresses: Mapping[str, str]
    interfaces: Mapping[str, str | None]
    port: int | None
    patience: float
    folder: str | None = None
    sharing: float = 0.0
    by_ssh: Mapping[str, Sequence[str]] = field(default_factory=dict)


def pairs(count: int, chance: random.Random) -> list[tuple[int, int]]:
    """Who tries to reach whom, by number, both ways: all up to 16 nodes, else a ring and random pairs."""
    if count <= ALL_PAIRS_UP_TO:
        return [(one, other) for one in range(count) for other in range(count) if one != other]
    chosen = set()
    for one in range(count):
        others = [(one + 1) % count, *chance.sample(range(count), RANDOM_PAIRS)]
        for other in others:
            if other != one:
                chosen |= {(one, other), (other, one)}
    return sorted(chosen)


async def meet(links: Links, meeting: Meeting, readings: Mapping[str, Readings]) -> dict[str, Readings]:
    """The readings with what was tried between the nodes added (docs/preflight.md, between nodes).

    Nothing is raised for a node that is lost meanwhile: what is not known is left out.
    """
    found = {node: dict(each.syscalls) for node, each in readings.items()}
    for node in meeting.nodes:
        found[node.name]["address"] = meeting.addresses[node.name]
        found[node.name]["interface"] = meeting.interfaces.get(node.name)
    async with AsyncExitStack() as stack:
        connections = {}
        for node in meeting.nodes:
            with contextlib.suppress(RankdeckError):
                connections[node.name] = await stack.enter_async_context(
                    links.use(meeting.pool.backend, node)
                )
        attempt = _Try(meeting, connections, found)
        await asyncio.gather(attempt.all(), attempt.share(), attempt.log_in())
    return {node: replace(each, syscalls=found[node]) for node, each in readings.items()}


class _Try:
    def __init__(
        self,
        meeting: Meeting,
        connections: Mapping[str, AgentConnection],
        found: Mapping[str, dict[str, Any]],
    ) -> None:
        self._meeting = meeting
        self._connections = connections
        self._found = found
        self._token = secrets.token_hex(8)
        self._listening: dict[str, list[Mapping[str, Any]]] = {}

    async def all(self) -> None:
        jobs: dict[str, int] = {}
        heard = {node: asyncio.get_running_loop().create_future() for node in self._connections}
        listeners = [
            asyncio.create_task(self._listen(node, jobs, heard[node]), name=f"listen on {node}")
            for node in self._connections
        ]
        try:
            if listeners:
                await asyncio.wait(heard.values(), timeout=_SETTLE_SECONDS)
            await self._reach()
        except asyncio.CancelledError:
            await self._end_all(jobs, listeners, _CALLED_OFF_SECONDS)
            raise
        await self._end_all(jobs, listeners, _SETTLE_SECONDS)

    async def _end_all(
        self, jobs: Mapping[str, int], listeners: Sequence[asyncio.Task[None]], seconds: float
    ) -> None:
        await from_all({node: self._end(node, job, seconds) for node, job in jobs.items()})
        if listeners:
            _, late = await asyncio.wait(listeners, timeout=seconds)
            for task in late:
                task.cancel()

    async def _listen(self, node: str, jobs: dict[str, int], heard: asyncio.Future[None]) -> None:
        address = self._meeting.addresses[node]
        wanted = [{"kind": "random", "address": address, "port": 0}]
        if node == self._meeting.nodes[0].name and self._meeting.port is not None:
            wanted.append({"kind": "rendezvous", "address": address, "port": self._meeting.port})

        def listening(header: Mapping[str, Any], body: bytes) -> None:
            self._listening[node] = objects(header, "listening")
            if not heard.done():
                heard.set_result(None)

        try:
            await self._connections[node].stream(
                "listen",
                listening,
                started=lambda job: jobs.__setitem__(node, job),
                on=wanted,
                token=self._token,
                seconds=_LISTEN_SECONDS,
            )
        except RankdeckError:
            pass
        finally:
            if not heard.done():
                heard.set_result(None)

    async def _end(self, node: str, job: int, seconds: float) -> None:
        await self._connections[node].request("end", timeout=seconds, job=job)

    async def _reach(self) -> None:
        names = [node.name for node in self._meeting.nodes]
        chosen = pairs(len(names), random.Random())
        head = names[0]
        self._note_ports(head)
        asks = {}
        for number, name in enumerate(names):
            others = [names[other] for one, other in chosen if one == number]
            targets = [target for other in others for target in self._targets(other, "random")]
            if name != head:
                targets += self._targets(head, "rendezvous")
            self._found[name].setdefault("connects", []).extend(told for told in targets if told.get("state"))
            open_targets = [told for told in targets if not told.get("state")]
            if name in self._connections and open_targets:
                asks[f"reach {name}"] = self._connect(name, open_targets)
            if name in self._connections and others and self._meeting.patience:
                asks[f"reverse {name}"] = self._reverse(name, head if name != head else others[0])
        await from_all(asks)

    def _note_ports(self, head: str) -> None:
        ports = [
            {name: entry.get(name) for name in ("port", "address", "state", "owner")}
            for entry in self._listening.get(head, ())
            if entry.get("kind") == "rendezvous"
        ]
        if ports:
            self._found[head]["ports"] = ports

    def _targets(self, node: str, kind: str) -> list[dict[str, Any]]:
        """What to connect to on a node; one that could not listen has a state already."""
        entry = next((each for each in self._listening.get(node, ()) if each.get("kind") == kind), None)
        if entry is None:
            return []
        target = {"to": node, "kind": kind, "address": entry.get("address"), "port": integer(entry, "port")}
        if entry.get("state") == "ok":
            return [target]
        return [{**target, "state": "not listening", "message": f"the listener said {entry.get('state')}"}]

    async def _connect(self, node: str, targets: Sequence[Mapping[str, Any]]) -> None:
        reply = await self._connections[node].request(
            "reach", to=list(targets), token=self._token, seconds=REACH_SECONDS
        )
        self._found[node].setdefault("connects", []).extend(objects(reply.header, "connects"))

    async def share(self) -> None:
        """Whether the folder is one and the same."""
        names = [node.name for node in self._meeting.nodes]
        if self._meeting.folder is None or len(names) < 2 or any(n not in self._connections for n in names):
            return
        told = await share(self._connections, names, self._meeting.folder, self._meeting.sharing)
        for node, entry in told.items():
            self._found[node]["shared"] = [entry]

    async def log_in(self) -> None:
        """Whether the head logs in to all others, as its mpirun does, which starts them without a tree."""
        head, *others = [node.name for node in self._meeting.nodes]
        if not self._meeting.by_ssh or head not in self._connections:
            return
        targets = [{"to": other, "words": list(self._meeting.by_ssh[other])} for other in others]
        await from_all({head: self._log_in_from(head, targets)})

    async def _log_in_from(self, node: str, targets: list[dict[str, Any]]) -> None:
        reply = await self._connections[node].request("log_in", to=targets, seconds=LOG_IN_SECONDS)
        self._found[node].setdefault("connects", []).extend(objects(reply.header, "connects"))

    async def _reverse(self, node: str, other: str) -> None:
        """How long the name of another node's address takes; the patience itself if it takes longer."""
        address = self._meeting.addresses[other]
        try:
            reply = await self._connections[node].request(
                "reverse", addresses=[address], timeout=self._meeting.patience
            )
            told = objects(reply.header, "reverse_dns")
        except RankdeckError:
            told = [{"address": address, "seconds": self._meeting.patience, "name": None}]
        self._found[node]["reverse_dns"] = told


def patience(pool: Pool, *, in_a_hurry: bool) -> float:
    """Seconds for the name service: the local backend's addresses have no names to ask for."""
    if pool.backend is BackendKind.LOCAL:
        return 0.0
    return 2.0 if in_a_hurry else 6.0
