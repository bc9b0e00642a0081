"""Following a run: one follower a node, the cause, and the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankdeck_runs.cause_watch import CauseWatch
from rankdeck_runs.finding import Finder
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.live import LinkState, LiveRun
from rankdeck_runs.metrics.watch import MetricsWatch
from rankdeck_runs.node_follow import NodeFollower
from rankdeck_runs.record import Record
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.targets import Targets
from rankdeck_runs.transport_watch import TransportWatch

FOLLOWED_WHOLE = 64
"""Up to this world size every rank's logs are followed."""
SUMMARY_SECONDS = 0.5
"""The list's summary is written at most so often."""
FRESH_SECONDS = 5.0
"""A summary is written so often even if nothing changes: its age tells whether anyone looks at the run."""

MEASURE_SECONDS = 30.0
"""How often the sizes of the record's files are looked at, for the list."""

ABSORB_SECONDS = 1.0
"""How often the record is looked at for what another rankdeck wrote there."""

_TELLING = frozenset(
    {
        "rank_ended",
        "rank_unknown",
        "start_failed",
        "setup_failed",
        "launcher_ended",
        "node_ended",
        "start_refused",
        "node_missing",
    }
)
"""Events after which there may be a cause to be found."""


class RunFollower:
    """Follows one run until all of it is in the record.

    Args:
        record: the run's record.
        live: its live view.
        offset: behind the last event in the record that the live view has taken in.
        links: gives connections.
        targets: the run's nodes.
    """

    def __init__(self, record: Record, live: LiveRun, offset: int, links: Links, targets: Targets) -> None:
        self._record = record
        self._live = live
        self._links = links
        self._targets = targets
        self.writer = RunWriter(record, live, offset, self._on_event)
        whole = targets.world_size <= FOLLOWED_WHOLE
        self._nodes = {
            target.name: NodeFollower(links, targets.backend, self.writer, target, whole=whole)
            for target in targets.nodes
        }
        self._transports = TransportWatch(self.writer, targets, whole=whole)
        self._metrics = MetricsWatch(live, targets, whole=whole)
        self._failed = asyncio.Event()
        self._changed = asyncio.Event()
        self._causes = CauseWatch(self.writer, live, Finder(record, live, links, targets))

    async def run(self) -> None:
        """Until the run has ended and all is fetched; cancel it to leave earlier."""
        loop = asyncio.get_running_loop()
        self._live.on_watch(lambda: _call_soon(loop, self._watch_changed))
        self._live.on_reconnect(lambda: _call_soon(loop, self._reconnect))
        self._failed.set()  # the record may tell of one already
        helpers = [
            asyncio.create_task(self._explain_failures(), name=f"failures of {self._record.id}"),
            asyncio.create_task(self._keep_summary(), name=f"summary of {self._record.id}"),
            asyncio.create_task(self._measure(), name=f"size of {self._record.id}"),
            asyncio.create_task(self._absorb_others(), name=f"other followers of {self._record.id}"),
            asyncio.create_task(self._transports.run(), name=f"networks of {self._record.id}"),
            asyncio.create_task(self._metrics.run(), name=f"metrics of {self._record.id}"),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for node in self._nodes.values():
                    group.create_task(node.run(), name=f"follow {node.target.name}")
            while True:
                try:
                    await self._finish()
                    break
                except OSError:  # the live view says so; all is here but for the last words
                    await asyncio.sleep(FRESH_SECONDS)
        finally:
            self._live.on_watch(None)
            self._live.on_reconnect(None)
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._record.refresh_summary(self._live.snapshot())
            self.writer.close()

    async def sync(self) -> bool:
        """Bring what all nodes have now, once; True if every node was reached.

        Raises:
            OSError: the record can't be written.
        """
        try:
            reached, _ = await from_all({node.target.name: node.catch_up() for node in self._nodes.values()})
            await self._finish()
            return all(reached.values())
        finally:
            self._record.refresh_summary(self._live.snapshot())
            self.writer.close()

    async def _finish(self) -> None:
        await self._causes.look(last=True)
        await self._transports.finish()
        await self._metrics.finish()
        snapshot = self._live.snapshot()
        if all(node.target.fetched for node in self._nodes.values()) and not snapshot.complete:
            # The list first: who waits for the end here may look there next.
            self._record.refresh_summary(replace(snapshot, complete=True))
            self.writer.own_event("complete")

    def _on_event(self, event: Mapping[str, Any]) -> None:
        self._changed.set()
        node = self._nodes.get(str(event.get("node")))
        if node is not None and node.target.saw(event):
            node.watch_changed()
        if event.get("ev") in _TELLING:
            self._failed.set()

    def _watch_changed(self) -> None:
        for node in self._nodes.values():
            node.watch_changed()

    def _reconnect(self) -> None:
        for node in self._nodes.values():
            node.reconnect()

    async def _keep_summary(self) -> None:
        told: object = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self._changed.wait()
            quiet = not self._changed.is_set()
            self._changed.clear()
            snapshot = self._live.snapshot()
            now = (snapshot.state, snapshot.complete, snapshot.cause, snapshot.timing.started)
            if now != told or (quiet and self._sees_a_node()):
                told = now
                self._record.refresh_summary(snapshot, measured=True)
            await asyncio.sleep(SUMMARY_SECONDS)

    async def _measure(self) -> None:
        while True:
            await asyncio.to_thread(self._record.kept, self._live.snapshot())
            await asyncio.sleep(MEASURE_SECONDS)

    def _sees_a_node(self) -> bool:
        return any(link.state is LinkState.CONNECTED for link in self._live.links.values())

    async def _absorb_others(self) -> None:
        while True:
            await asyncio.sleep(ABSORB_SECONDS)
            self.writer.absorb()

    async def _explain_failures(self) -> None:
        while True:
            await self._failed.wait()
            self._failed.clear()
            await self._causes.look()


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    # The loop may be closed by the time a screen tells what it watches.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)
