"""The cause of a run's failure: which logs are read for it, and when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rankdeck_runs import diagnosis, layout
from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.failures import Failure
from rankdeck_runs.judging import words
from rankdeck_runs.judging.judge import Suspect, judge
from rankdeck_runs.judging.words import LogEnd
from rankdeck_runs.links import Links
from rankdeck_runs.live import LiveRun
from rankdeck_runs.log_ends import LogEnds
from rankdeck_runs.record import Record
from rankdeck_runs.states import RankState, RankStatus
from rankdeck_runs.targets import Targets

MOST_OTHERS = 4
"""Ranks in whose logs a silent launcher's failure is looked for."""
MOST_READ = 512
"""Ranks whose logs are read for one cause: those that failed first, and of the stopped ones the first."""
AT_ONCE = 16
"""Of them, so many at a time."""

_OF_RANK = (CauseKind.EXIT, CauseKind.SIGNAL, CauseKind.UNKNOWN)


class Finder:
    """Finds the cause of one run's failure; remembers what it has read.

    Args:
        record: where the logs are mirrored.
        live: tells who failed, and how large the logs should be.
        links: to read from a node what is not here.
        targets: where the nodes are.
    """

    def __init__(self, record: Record, live: LiveRun, links: Links, targets: Targets) -> None:
        self._live = live
        self._ends = LogEnds(record, links, targets)
        self._read: dict[Failure, Suspect] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def of_first(self, first: Failure) -> Cause | None:
        """The quick answer: what the failing program says of itself; None if it says that others began."""
        suspect = await self._suspect(first)
        return None if suspect.is_follower else judge([suspect])

    async def of_all(self, failures: Sequence[Failure]) -> Cause:
        """What all that ended badly say, and those that were stopped for it.

        Args:
            failures: in order, the first failure first; not empty.
        """
        failed = list(await asyncio.gather(*(self._suspect(each) for each in failures[:MOST_READ])))
        if not failed[0].is_follower:
            return judge(failed)
        ranks = [r for r in self._live.snapshot().ranks if r.state is RankState.STOPPED]
        stopped = list(await asyncio.gather(*(self._stopped(rank) for rank in ranks[:MOST_READ])))
        silent = [each.failure.rank for each in stopped if not each.words.by_log]
        return judge([*failed, *stopped], [rank for rank in silent if rank is not None])

    async def _suspect(self, failure: Failure) -> Suspect:
        known = self._read.get(failure)
        if known is None:
            async with self._turns:
                known = self._read[failure] = await self._look(failure)
        return known

    async def _stopped(self, rank: RankStatus) -> Suspect:
        failure = Failure(
            rank.ended or math.inf,
            rank.node,
            CauseKind.SIGNAL if rank.signal else CauseKind.EXIT,
            f"rank {rank.rank} had to be stopped",
            rank=rank.rank,
            signal=rank.signal or "",
            code=rank.exit_code,
            attempt=rank.attempt,
        )
        return replace(await self._suspect(failure), failed=False)

    async def _look(self, failure: Failure) -> Suspect:
        name = self._name(failure)
        err, out = LogEnd("", b""), LogEnd("", b"")
        if name is not None:
            err, out = await self._ends.both(name, failure.node, self._sizes(failure), failure.rank)
        told = words.of_failure(failure, err, out)
        if name is not None and not err.data.strip() and not out.data.strip():
            elsewhere = await self._told_elsewhere(failure)
            if elsewhere is not None:
                reason = elsewhere.message.partition(":")[0]
                told = replace(
                    told, message=elsewhere.message, evidence=elsewhere.evidence, reason=reason, spoken=True
                )
                failure = replace(failure, rank=elsewhere.rank)
        elif failure.rank is None and name is not None:
            # An mpirun names the rank that ended its job.
            failure = replace(failure, rank=diagnosis.explain(failure, err.data, out.data).rank)
        launched = bool(self._live.snapshot().launchers) and failure.rank is not None
        return Suspect(failure, told, launched=launched)

    async def _told_elsewhere(self, failure: Failure) -> Cause | None:
        """What others say where the failing program is silent: an MPI's messages come out at either end."""
        for node, rank, name in self._others(failure):
            err, _ = await self._ends.both(name, node, (None, None), rank)
            cause = diagnosis.told_elsewhere(failure, rank, err.data)
            if cause is not None:
                return cause
        return None

    def _others(self, failure: Failure) -> Iterator[tuple[str, int | None, str]]:
        """Node, rank and name of the logs that may say more: launchers' for a rank, some ranks' for those."""
        snapshot = self._live.snapshot()
        if failure.rank is not None:
            for launcher in snapshot.launchers:
                yield launcher.node, None, f"launcher-{launcher.process}"
            return
        spoken = [rank for rank in snapshot.ranks if rank.err_bytes and rank.attempt == failure.attempt]
        for rank in sorted(spoken, key=lambda each: each.ended or math.inf)[:MOST_OTHERS]:
            yield rank.node, rank.rank, layout.log_name(rank.rank, "", rank.attempt).rstrip(".")

    def _name(self, failure: Failure) -> str | None:
        """Whose logs tell more: a rank's or a launcher's, as the protocol names them."""
        if failure.kind in _OF_RANK and failure.rank is not None:
            return layout.log_name(failure.rank, "", failure.attempt).rstrip(".")
        if failure.kind in (CauseKind.LAUNCHER, CauseKind.START) and failure.rank is None:
            for launcher in self._live.snapshot().launchers:
                if launcher.node == failure.node and (launcher.exit_code or launcher.signal):
                    return f"launcher-{launcher.process}"
        return None

    def _sizes(self, failure: Failure) -> tuple[int | None, int | None]:
        ranks = self._live.snapshot().ranks
        rank = next((r for r in ranks if r.rank == failure.rank), None)
        if rank is None or rank.attempt != failure.attempt:
            return None, None
        return rank.err_bytes, rank.out_bytes
