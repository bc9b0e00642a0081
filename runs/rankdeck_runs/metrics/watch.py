"""Reads the metrics of a followed run while it goes on."""

from __future__ import annotations

import asyncio

from rankdeck_runs import layout
from rankdeck_runs.live import LiveRun
from rankdeck_runs.targets import Targets

LOOK_SECONDS = 1.0
"""Between two looks at logs that have grown."""
LOOK_LIMIT = 0.1
"""Seconds that one look may take: at a flood of lines metrics lag behind, until somebody looks at them."""
SILENT_LIMIT = 0.001
"""Seconds of it for logs without metrics: following costs little more than bringing the bytes."""
LAST_LOOK = 5.0
"""Seconds for what is left at the run's end. What is still left then is read when somebody asks for it."""


class MetricsWatch:
    """Looks at logs as they are in the record, beside the way by which they come there.

    Args:
        live: the run.
        targets: its nodes.
        whole: every rank's log is followed; else those that somebody watches, and the first rank of each node
            whose ranks write into the record themselves.
    """

    def __init__(self, live: LiveRun, targets: Targets, *, whole: bool) -> None:
        self._live = live
        self._targets = targets
        self._whole = whole

    async def run(self) -> None:
        """Look again and again; cancel it at the run's end."""
        while True:
            await asyncio.to_thread(
                self._live.metrics.update,
                self._sizes(),
                seconds=LOOK_LIMIT,
                silent_seconds=SILENT_LIMIT,
                live=True,
            )
            await asyncio.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Read what is left: the run has ended, and its logs are here."""
        await asyncio.to_thread(self._live.metrics.update, seconds=LAST_LOOK)

    def _sizes(self) -> dict[str, int] | None:
        if self._whole:
            return None  # all that is in the record, as it is this moment: ranks are to be read alike
        ranks = set(self._live.watched or ())
        ranks |= {node.ranks[0] for node in self._targets.nodes if node.shared and node.ranks}
        known = self._live.snapshot().ranks
        return {
            layout.log_name(rank, stream, known[rank].attempt): self._live.growth(rank, stream).size
            for rank in ranks
            if rank < len(known)
            for stream in ("out", "err")
        }
