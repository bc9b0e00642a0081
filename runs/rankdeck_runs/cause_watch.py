"""Keeps the cause in the record up to what is known: the quick answer first, the considered one after it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from rankdeck_runs.causes import Cause
from rankdeck_runs.failures import Failure
from rankdeck_runs.finding import Finder
from rankdeck_runs.live import LiveRun
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.states import RankState


class CauseWatch:
    """Looks for the cause each time that more is known.

    Args:
        writer: takes the event `cause_found`.
        live: tells who failed.
        finder: reads what they say.
    """

    def __init__(self, writer: RunWriter, live: LiveRun, finder: Finder) -> None:
        self._writer = writer
        self._live = live
        self._finder = finder
        self._judged: tuple[Sequence[Failure], int] = (), 0

    async def look(self, *, last: bool = False) -> None:
        """Find the cause of what has failed so far.

        Args:
            last: nothing more will be known: the followers are told, too.
        """
        failures = self._live.failures()
        if not failures:
            return
        first = failures[0]
        known = self._live.snapshot().cause
        if known is None or not known.reason:
            quick = await self._finder.of_first(first)
            if quick is not None:
                self._tell(first, quick, last=False)
        # Who was stopped counts, too: one of those may have held up the others.
        now = failures, self._live.snapshot().counts.get(RankState.STOPPED, 0)
        if last or now != self._judged:
            self._judged = now
            self._tell(first, await self._finder.of_all(failures), last=last)

    def _tell(self, first: Failure, cause: Cause, *, last: bool) -> None:
        known = self._live.snapshot().cause
        if known is not None and (known == cause or (not last and _short(known) == _short(cause))):
            return
        about = {"node": first.node, "kind": str(first.kind), "rank": first.rank}
        with contextlib.suppress(OSError):
            self._writer.own_event("cause_found", about=about, **cause.to_json())


def _short(cause: Cause) -> tuple[object, ...]:
    """What is worth an event of its own while more is to come."""
    return cause.rank, cause.node, cause.kind, cause.message, cause.reason, cause.said
