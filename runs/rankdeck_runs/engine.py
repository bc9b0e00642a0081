"""The engine: starts, follows and stops runs, on a thread of its own with its own asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from rankdeck_backends import CONNECT_TIMEOUT
from rankdeck_backends.asking import Asker
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.model import Pool, Profile
from rankdeck_runs import collecting, events, removing
from rankdeck_runs.checking import Checked, check
from rankdeck_runs.collection import Kept
from rankdeck_runs.errors import UnwrittenError
from rankdeck_runs.follow import RunFollower
from rankdeck_runs.home import RunHome
from rankdeck_runs.launching import launch
from rankdeck_runs.links import Links
from rankdeck_runs.live import LiveRun
from rankdeck_runs.network import NetworkThread
from rankdeck_runs.patience import PatientAsker
from rankdeck_runs.preparing import Prepared, prepare, probe
from rankdeck_runs.record import Record
from rankdeck_runs.removing import Cleared
from rankdeck_runs.stopping import StopProgress, StopResult, stop_nodes
from rankdeck_runs.targets import read_targets

Progress = Callable[[str], None]
"""Told in one line what is under way. Called on the engine's thread: it must return at once."""

SETTLE_SECONDS = 15.0
"""After a stop, how long its events and last bytes may take to arrive."""

_log = logging.getLogger(__name__)


class Engine:
    """Everything that talks to nodes. Methods may be called from any thread and return at once.

    Futures raise `RankdeckError` (`PrepareError`, `LaunchError`, `NodeError`, ...) for what a person can
    act on.

    Args:
        home: where runs are recorded.
        connect_timeout: seconds for each step of a login.
        asker: asks the person what logins need (host keys, passphrases, passwords), on the engine's thread;
            None: nothing is asked, and a login that needs an answer fails.
    """

    def __init__(
        self, home: RunHome, *, connect_timeout: float = CONNECT_TIMEOUT, asker: Asker | None = None
    ) -> None:
        self._home = home
        self.asker = asker
        self._patience = PatientAsker(asker) if asker is not None else None
        self._network = NetworkThread()
        self._links = self._network.submit(_make_links(connect_timeout, self._patience)).result()
        self._lock = threading.Lock()
        self._followed: dict[str, LiveRun] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._launches: dict[Future[str], asyncio.Event] = {}
        self._closed = False

    def prepare(
        self, profile: Profile, pool: Pool, progress: Progress | None = None, *, skip_checks: bool = False
    ) -> Future[Prepared]:
        """Look at the nodes and plan the run; nothing is started.

        Args:
            profile: what to run.
            pool: where.
            progress: told what is under way.
            skip_checks: go on although nodes lack something; `Prepared.problems` then lists what. Nodes
                that can't be reached always end it.

        Raises (in the future):
            PrepareError: nodes could not be reached, or lack something; lists every problem, node by node.
                Its `exit_status` is 3 if a node could not be reached, else 2.
            PlanError: profile, pool and facts do not fit together.
        """
        return self._network.submit(self._prepare(profile, pool, progress or _say_nothing, skip_checks))

    def probe(self, pool: Pool, progress: Progress | None = None) -> Future[dict[str, NodeFacts]]:
        """Ask every node of a pool what it is (addresses, CPUs, GPUs, leftovers), by node name.

        Raises (in the future):
            PrepareError: nodes could not be reached; lists every one.
        """
        return self._network.submit(probe(self._links, pool, progress or _say_nothing))

    def check(
        self,
        profile: Profile | None,
        pool: Pool,
        progress: Progress | None = None,
        *,
        framework: str = "torchrun",
    ) -> Future[Checked]:
        """Preflight only: read all on the nodes and between them, and judge; nothing is planned for good.

        Nodes that can't be reached are findings of the report, and named in `Checked.unreached`.

        Args:
            profile: what is to be run there; None: the pool alone.
            pool: the nodes.
            progress: told what is under way.
            framework: where there is no profile, for which framework the pool is judged.

        Raises (in the future):
            PlanError: profile, pool and facts do not fit together.
        """
        return self._network.submit(self._check(profile, pool, progress or _say_nothing, framework))

    def launch(self, prepared: Prepared, progress: Progress | None = None) -> Future[str]:
        """Record the run and start it on every node; gives its id once the start is under way on all.

        If one node fails to start, what has started elsewhere is stopped and the run is recorded as failed.

        Raises (in the future):
            LaunchError: with `run_id` and the reasons, node by node.
            ProfileError: a name in `env_from` is not set here; nothing was recorded.
            RecordError: the record can't be written; nothing was started.
            CalledOffError: `call_off` was called, and what had started was stopped.
        """
        called_off = asyncio.Event()
        launching = self._network.submit(self._launch(prepared, progress or _say_nothing, called_off))
        self._launches[launching] = called_off
        launching.add_done_callback(lambda done: self._launches.pop(done, None))
        return launching

    def call_off(self, launching: Future[str]) -> None:
        """Call a launch off: no further node is asked, what has started is stopped, then its future raises.

        Args:
            launching: what `launch` gave. Once it is done there is nothing to be called off: `stop` the run.
        """
        called_off = self._launches.get(launching)
        if called_off is not None:
            self._network.call(called_off.set)

    def attach(self, run_id: str) -> LiveRun:
        """Follow a run. A run that is followed already gives the same object.

        A run whose record is complete is not contacted any more: its view says all there is.

        Raises:
            RunNotFoundError: there is no such run.
            RankdeckError: its record is too damaged to tell where it was.
        """
        with self._lock:
            known = self._followed.get(run_id)
            if known is not None:
                return known
            record = self._home.find(run_id)
            fold, offset = record.fold_and_offset()
            live = LiveRun(record.id, record.path, fold, record.log_sizes())
            if not live.snapshot().complete:
                follower = RunFollower(record, live, offset, self._links, read_targets(record))
                self._network.call(lambda: self._start_following(record.id, follower))
            self._followed[record.id] = live
            return live

    def detach(self, run_id: str) -> None:
        """Stop following; the run goes on."""
        with self._lock:
            self._followed.pop(run_id, None)
        self._network.call(lambda: self._stop_following(run_id))

    def stop(
        self,
        run_id: str,
        grace: float | None = None,
        force: bool = False,
        progress: Callable[[StopProgress], None] | None = None,
    ) -> Future[StopResult]:
        """End a run on all its nodes at once.

        Done when all is proven gone and the record says so, or nodes could not be reached.

        Args:
            run_id: the run.
            grace: seconds between the signal and SIGKILL; None: the profile's.
            force: SIGKILL at once.
            progress: told about each node once a second what is left there; called on the engine's thread.
        """
        return self._network.submit(self._stop(run_id, grace, force, progress))

    def sync(self, run_id: str, timeout: float = 30.0) -> Future[bool]:
        """Bring every event and log byte that the record lacks, then leave; True if it is all there now.

        For a run still going on, that is what its nodes had when asked. False: a node was not reached, or
        time ran out; the record holds what came. The time a person takes to answer a login does not count.
        """
        return self._network.submit(self._sync(run_id, timeout))

    def collect(self, run_id: str) -> Future[Kept]:
        """Bring every log that the record lacks, however long that takes, and prove it: what is here then.

        Where the connection breaks, or this process ends, the next call goes on at the byte.

        Raises (in the future):
            UnwrittenError: the record can't be written.
        """
        return self._network.submit(self._collect(run_id))

    def clear_nodes(self, run_id: str) -> Future[Cleared]:
        """Remove the run's folders from those of its nodes whose logs are here and verified.

        The record stays.
        """
        return self._network.submit(self._clear_nodes(run_id))

    def remove(self, run_id: str) -> Future[Cleared]:
        """Remove a run that has ended: its folders on nodes that can be reached, then its record.

        Raises (in the future):
            RemoveError: it has not ended, or a node says that something of it goes on: the record stays.
            RunNotFoundError: there is no such run.
        """
        return self._network.submit(self._remove(run_id))

    def close(self) -> None:
        """Leave all nodes and end the thread. Runs go on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._followed.clear()
        self._network.close(self._links.close())

    # On the engine's loop.

    async def _prepare(self, profile: Profile, pool: Pool, progress: Progress, skip_checks: bool) -> Prepared:
        try:
            return await prepare(self._links, profile, pool, progress, skip_checks=skip_checks)
        except BaseException:
            await self._links.close_unused()
            raise

    async def _check(
        self, profile: Profile | None, pool: Pool, progress: Progress, framework: str
    ) -> Checked:
        return await check(self._links, profile, pool, progress, framework)

    async def _launch(self, prepared: Prepared, progress: Progress, called_off: asyncio.Event) -> str:
        try:
            return (await launch(self._home, self._links, prepared, progress, called_off)).id
        except BaseException:
            await self._links.close_unused()
            raise

    def _start_following(self, run_id: str, follower: RunFollower) -> None:
        task = asyncio.create_task(follower.run(), name=f"follow {run_id}")
        task.add_done_callback(lambda done: self._followed_to_the_end(run_id, done))
        self._following[run_id] = task

    def _stop_following(self, run_id: str) -> None:
        task = self._following.pop(run_id, None)
        if task is not None:
            task.cancel()

    def _followed_to_the_end(self, run_id: str, task: asyncio.Task[None]) -> None:
        if self._following.get(run_id) is task:
            del self._following[run_id]
        if not task.cancelled() and task.exception() is not None:
            _log.error("following run %s ended by a fault", run_id, exc_info=task.exception())

    async def _stop(
        self,
        run_id: str,
        grace: float | None,
        force: bool,
        progress: Callable[[StopProgress], None] | None,
    ) -> StopResult:
        record = self._home.find(run_id)
        targets = read_targets(record)
        open_nodes = {node.name for node in record.fold().snapshot().nodes if not node.state.is_terminal}
        signal = "KILL" if force else targets.stop.signal
        seconds = targets.stop.grace if grace is None else grace
        # A node whose folder of the run is gone may still have its processes.
        asked = [
            t
            for t in targets.nodes
            if (t.dir is not None or not t.missing) and (force or t.missing or t.name in open_nodes)
        ]
        if not asked:
            return StopResult(gone=True)
        self._own_event(record, "stop_asked", why="asked", signal=signal, grace=seconds)
        result = await stop_nodes(
            self._links,
            targets.backend,
            asked,
            record.id,
            signal=signal,
            grace=seconds,
            force=force,
            progress=progress,
        )
        self._own_event(record, "stop_ended", **result.to_json())
        if result.gone:
            await self._settle(record)
        return result

    async def _settle(self, record: Record) -> None:
        """Have the record say how it ended before the stop is called done."""
        live = self._followed.get(record.id)
        if live is None or record.id not in self._following:
            with contextlib.suppress(UnwrittenError):  # it is gone all the same
                await self._sync(record.id, SETTLE_SECONDS)
            return
        following = self._following[record.id]
        await asyncio.wait([following], timeout=SETTLE_SECONDS)

    async def _sync(self, run_id: str, limit: float) -> bool:
        return await collecting.sync(self._links, self._home.find(run_id), limit, self._patience)

    async def _collect(self, run_id: str) -> Kept:
        return await collecting.collect(self._links, self._home.find(run_id), self._patience)

    async def _clear_nodes(self, run_id: str) -> Cleared:
        return await removing.clear_verified(self._links, self._home.find(run_id))

    async def _remove(self, run_id: str) -> Cleared:
        record = self._home.find(run_id)
        removing.check_ended(record)
        with self._lock:
            self._followed.pop(record.id, None)
        self._stop_following(record.id)
        return await removing.remove_run(self._links, record)

    def _own_event(self, record: Record, ev: str, **fields: object) -> None:
        """Add an event of ours to the record, and to the live view if there is one."""
        event = events.make(ev, **fields)
        # A full disk must not keep anyone from stopping a run.
        with contextlib.suppress(OSError):
            events.append(record.events_path, event)
        live = self._followed.get(record.id)
        if live is not None:
            live.apply(event)


async def _make_links(connect_timeout: float, asker: Asker | None) -> Links:
    return Links(connect_timeout, asker)


def _say_nothing(line: str) -> None:
    """Take a progress line that nobody asked for."""
