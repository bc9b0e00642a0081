"""Following one node of a run through lost links, until it has ended and everything of it is here."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterable

from rankdeck_backends.base import NodeError, NodeRefusal, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import BackendKind
from rankdeck_runs.errors import without_node
from rankdeck_runs.links import Links
from rankdeck_runs.live import LinkState
from rankdeck_runs.mirror import GapError
from rankdeck_runs.node_session import NodeSession, beside
from rankdeck_runs.proving import Proof
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.targets import Target, another_machine, read_targets

RETRY_FIRST = 0.5
RETRY_MOST = 5.0
"""Seconds before a lost node is tried again: doubled from the first to the most, for as long as anyone
follows."""
RETRY_REFUSED_MOST = 60.0
"""The same where a login was refused: each try is one more in the server's log, and in what counts them to
lock accounts or addresses out (pam_faillock, fail2ban)."""
START_PATIENCE = 60.0
"""Seconds after which a start that a node knows nothing of has failed: another rankdeck may just be
starting it."""


class NodeFollower:
    """Follows one node.

    Args:
        links: gives connections.
        backend: how the node is reached.
        writer: takes what comes.
        target: the node.
        whole: every log is followed; else the watched ranks' only, and all at the end.
    """

    def __init__(
        self, links: Links, backend: BackendKind, writer: RunWriter, target: Target, *, whole: bool
    ) -> None:
        self._links = links
        self._backend = backend
        self._writer = writer
        self._live = writer.live
        self.target = target
        self._whole = whole
        self._rewatch = asyncio.Event()
        self._reconnect = asyncio.Event()
        self._reached: AgentConnection | None = None

    async def run(self) -> None:
        """Follow until all is here; a lost link is made again and again."""
        delay = RETRY_FIRST
        while not self._nothing_to_fetch():
            self._set_link(LinkState.CONNECTING)
            try:
                async with self._links.use(self._backend, self.target.node) as connection:
                    self._linked(connection)
                    delay = RETRY_FIRST
                    await self._session(NodeSession(connection, self.target, self._writer))
                    why: Exception | None = None
            except (RankdeckError, GapError, OSError) as error:
                self._failed(error)
                why = error
            if not self.target.fetched:
                await self._pause(delay, why)
                delay = min(delay * 2, RETRY_REFUSED_MOST if _is_refused(why) else RETRY_MOST)
                self._look_again()
        self._set_link(LinkState.ENDED)

    async def catch_up(self) -> bool:
        """Bring what the node has now, once; True if it was reached and all of that is here."""
        if self._nothing_to_fetch():
            return True
        try:
            async with self._links.use(self._backend, self.target.node) as connection:
                self._linked(connection)
                session = NodeSession(connection, self.target, self._writer)
                brought: tuple[str, ...] | None = None
                # Which logs there are may come to light only by the events that come with them.
                while (names := self._all_names()) != brought:
                    if await session.bring(names):
                        await self._ended(session)
                        break
                    brought = names
                return True
        except (RankdeckError, GapError, OSError) as error:
            self._failed(error)
        return self.target.fetched

    def _all_names(self) -> tuple[str, ...]:
        return () if self.target.shared else (*self.target.log_names, *self.target.index_names)

    def watch_changed(self) -> None:
        """Other ranks are watched now."""
        self._rewatch.set()

    def reconnect(self) -> None:
        """Try a lost link again at once."""
        self._reconnect.set()

    async def _pause(self, delay: float, why: Exception | None) -> None:
        """Wait before the next try; where a person has to answer something, until they want to."""
        self._reconnect.clear()
        needs_person = isinstance(why, NodeError) and why.needs_person
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if needs_person else delay * random.uniform(0.8, 1.2)):
                await self._reconnect.wait()

    # One connection's life.

    async def _session(self, session: NodeSession) -> None:
        followed = self._wanted()
        async with beside(self._keep_watched(session, followed)):
            ended = await session.follow(followed)
        if ended:
            await self._ended(session)

    async def _keep_watched(self, session: NodeSession, names: tuple[str, ...]) -> None:
        while True:
            await self._rewatch.wait()
            self._rewatch.clear()
            wanted = self._wanted()
            if set(wanted) != set(names):
                await session.watch(wanted, names)
                names = wanted

    async def _ended(self, session: NodeSession) -> None:
        """Bring what was not followed, the logs nobody watched and the indexes of times; prove all of it."""
        if self.target.shared:
            await session.shared_bytes_seen()
            self._fetched()
            return
        names = self._all_names()
        while await session.follow(names, samples=0):
            if (proof := await session.prove(names)) is not None:
                self._fetched(proof)
                return

    def _wanted(self) -> tuple[str, ...]:
        if self.target.shared:
            return ()
        indexes = _of_ranks(self.target.index_names, self._live.timed)
        if self._whole:
            return (*self.target.log_names, *indexes)
        launchers = (name for name in self.target.log_names if name.startswith("launcher-"))
        watched = _of_ranks(self.target.log_names, self._live.watched or frozenset())
        return (*launchers, *watched, *indexes)

    # How it stands.

    def _nothing_to_fetch(self) -> bool:
        if self.target.missing and not self.target.fetched:
            with contextlib.suppress(OSError):  # asked again, as long as there is no room for it
                self._fetched()
        return self.target.fetched

    def _linked(self, connection: AgentConnection) -> None:
        self._reached = connection
        self._writer.own_event(
            "link_up", node=self.target.name, skew=self._links.skew(self._backend, self.target.node)
        )
        self._set_link(LinkState.CONNECTED)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, NodeRefusal):
            self._refused(error)
        elif isinstance(error, RankdeckError):
            self._lost(error)
        elif isinstance(error, OSError):
            self._set_link(LinkState.LOST, f"the record can't be written: {error.strerror or error}")
        else:
            self._set_link(LinkState.LOST, str(error))

    def _lost(self, error: RankdeckError) -> None:
        message = without_node(self.target.name, error.message)
        # One line each time it is lost for another reason, not one each time it is tried in vain.
        shown = next(n.message for n in self._live.snapshot().nodes if n.name == self.target.name)
        if shown != message:
            step = str(error.step) if isinstance(error, NodeError) else ""
            with contextlib.suppress(OSError):
                self._writer.own_event("link_lost", node=self.target.name, step=step, message=message)
        needs_person = isinstance(error, NodeError) and error.needs_person
        self._set_link(LinkState.LOST, message, needs_person=needs_person)

    def _refused(self, refusal: NodeRefusal) -> None:
        message = without_node(self.target.name, refusal.message)
        self._set_link(LinkState.LOST, message)
        if any(problem.kind != "missing" for problem in refusal.problems):
            return
        if self._reached is not None and (wrong := another_machine(self.target, self._reached)):
            self._lost(wrong)
            return
        target = self.target
        started = target.dir is not None
        if started:
            why = f"the run's folder {target.dir} is gone from it"
        elif time.time() - (target.asked or self._created()) > START_PATIENCE:
            why = "it knows nothing of this run: its start was cut short"
        else:
            return
        with contextlib.suppress(OSError):
            self._writer.own_event("node_missing", node=target.name, why=why, started=started)
            self._fetched()

    def _created(self) -> float:
        return self._live.snapshot().timing.created or 0.0

    def _look_again(self) -> None:
        """Whether another rankdeck has got the start through, or had more to write."""
        self._writer.mirror.forget_sizes()
        if self.target.dir is None:
            for target in read_targets(self._writer.record).nodes:
                if target.name == self.target.name:
                    self.target = target

    def _fetched(self, proof: Proof | None = None) -> None:
        proven = proof.to_json() if proof is not None else {}
        self._writer.own_event("node_fetched", node=self.target.name, **proven)
        self.target.fetched = True

    def _set_link(self, state: LinkState, message: str = "", *, needs_person: bool = False) -> None:
        known = self._live.links.get(self.target.name)
        if known is not None and known.state is LinkState.LOST and state is LinkState.CONNECTING:
            return  # it stays lost, and says since when, until it is there again
        if known is None or (known.state, known.message, known.needs_person) != (
            state,
            message,
            needs_person,
        ):
            self._live.set_link(self.target.name, state, message, needs_person=needs_person)


def _of_ranks(names: Iterable[str], ranks: frozenset[int]) -> tuple[str, ...]:
    """The logs of these ranks, in whichever attempt, by their names as the node has them."""
    stems = {str(rank) for rank in ranks}
    return tuple(name for name in names if name.partition(".")[0] in stems)


def _is_refused(why: Exception | None) -> bool:
    return isinstance(why, NodeError) and why.step in (Step.AUTH, Step.HOST_KEY)
