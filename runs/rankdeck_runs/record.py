"""The folder of one run: plain files that grep, less and jq read. `layout.py` holds their names."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankdeck_runs import events, layout
from rankdeck_runs.collection import Kept, disk_use, of_run
from rankdeck_runs.fold import Fold
from rankdeck_runs.logs import LogFile
from rankdeck_runs.states import RankStatus, RunSnapshot, iso
from rankdeck_runs.summary import RunSummary, read_summary, write_summary


class Record:
    """One run's record.

    Args:
        path: the run's folder; its name is the run's id.

    Attributes:
        id: the run's id.
        path: the run's folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = self.path.name
        self._kept: Kept | None = None

    @property
    def profile_path(self) -> Path:
        """The profile as it was launched; `rankdeck run` of it repeats the run."""
        return self.path / layout.RUN_TOML

    @property
    def events_path(self) -> Path:
        """The event file."""
        return self.path / layout.EVENTS

    @property
    def logs_path(self) -> Path:
        """The folder of all logs."""
        return self.path / layout.LOGS

    def log_path(self, name: str) -> Path:
        """Where a log is, by its file name in `logs/` (see `layout`)."""
        return self.logs_path / name

    def log(self, rank: int, stream: str, attempt: int = 1) -> LogFile:
        """A rank's log; stream is `out` or `err`; see `layout.rank_log`."""
        return LogFile(self.log_path(layout.rank_log(rank, stream, attempt)))

    def plan(self) -> Mapping[str, Any]:
        """The launch plan as JSON; empty if it can't be read."""
        return self._json(layout.PLAN)

    def facts(self) -> Mapping[str, Any]:
        """Node name -> what its probe answered; empty if it can't be read."""
        return self._json(layout.FACTS)

    def created_event(self) -> Mapping[str, Any]:
        """The run's first event: profile, pool, nodes, stop policy. Empty if it is lost."""
        for event in events.read(self.events_path):
            if event["ev"] == "run_created":
                return event
        return {}

    def fold(self) -> Fold:
        """A fold that has taken in every event so far."""
        return self.fold_and_offset()[0]

    def fold_and_offset(self) -> tuple[Fold, int]:
        """A fold that has taken in every event so far, and the offset in their file behind the last one."""
        fold, offset = Fold(self.id, self.plan()), 0
        for behind, event in events.read_from(self.events_path, 0):
            fold.apply(event)
            offset = behind
        return fold, offset

    def snapshot(self) -> RunSnapshot:
        """What the record says of the run; sizes of logs that no event tells are those of the files."""
        snapshot = self.fold().snapshot()
        return replace(snapshot, ranks=tuple(self._with_sizes(rank) for rank in snapshot.ranks))

    def summary(self) -> RunSummary:
        """The run in the list of runs, as last written; made anew if it is missing."""
        return read_summary(str(self.path), self.id) or self.refresh_summary()

    def kept(self, snapshot: RunSnapshot) -> Kept:
        """What of the run's logs is here, and how much room the record takes: looks at every file's size."""
        self._kept = Kept(disk_use(self.path), of_run(snapshot, self.log_sizes()))
        return self._kept

    def refresh_summary(self, snapshot: RunSnapshot | None = None, *, measured: bool = False) -> RunSummary:
        """Write the summary from the events, or from a snapshot that has them all already.

        Args:
            snapshot: what is known of the run; None: what its events say.
            measured: what `kept` was last found to say is new enough.
        """
        looked = time.time() if snapshot is not None else self._last_change()
        shown = snapshot or self.fold().snapshot()
        kept = self._kept if measured and self._kept is not None else self.kept(shown)
        summary = summarise(shown, looked, kept)
        # The summary is a convenience: a full disk or a folder of somebody else's must not stop anything.
        with contextlib.suppress(OSError):
            write_summary(str(self.path), summary)
        return summary

    def log_sizes(self) -> dict[str, int]:
        """Bytes of each rank's log that is here, by the agent's name for it (`3.out`)."""
        sizes: dict[str, int] = {}
        with contextlib.suppress(OSError), os.scandir(self.logs_path) as entries:
            for entry in entries:
                if name := layout.to_protocol(entry.name):
                    sizes[name] = entry.stat().st_size
        return sizes

    def _last_change(self) -> float:
        try:
            return self.events_path.stat().st_mtime
        except OSError:
            return 0.0

    def _with_sizes(self, rank: RankStatus) -> RankStatus:
        if rank.started is None or (rank.out_bytes is not None and rank.err_bytes is not None):
            return rank
        sizes = [
            known if known is not None else self.log(rank.rank, stream, rank.attempt).size
            for stream, known in (("out", rank.out_bytes), ("err", rank.err_bytes))
        ]
        return replace(rank, out_bytes=sizes[0], err_bytes=sizes[1])

    def _json(self, name: str) -> Mapping[str, Any]:
        try:
            value = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def summarise(snapshot: RunSnapshot, updated: float, kept: Kept) -> RunSummary:
    """A snapshot in the few words of the list.

    Args:
        snapshot: what is known of the run.
        updated: unix seconds when that was learned.
        kept: what of it is on this machine.
    """
    cause = snapshot.cause
    untold = snapshot.state.goes_on or not kept.nodes
    return RunSummary(
        snapshot.id,
        {
            "state": str(snapshot.state),
            "profile": snapshot.profile,
            "framework": snapshot.framework,
            "pool": snapshot.pool,
            "backend": snapshot.backend,
            "created": iso(snapshot.timing.created),
            "started": iso(snapshot.timing.started),
            "ended": iso(snapshot.timing.ended),
            "world_size": snapshot.world_size,
            "nodes": len(snapshot.nodes),
            "active_test": snapshot.active_test,
            "cause": None if cause is None else cause.message,
            "complete": snapshot.complete,
            "updated": updated,
            "disk_bytes": kept.disk,
            "logs": "" if untold else str(kept.state),
            "lacks": None if untold else kept.lacks or None,
        },
    )
