"""The logs of one run: where each one's file is, and what its tile says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_runs.live import LiveRun
from rankdeck_runs.rank_logs import clock_skews, timed_logs
from rankdeck_runs.states import RankState
from rankdeck_runs.timeline import TimedLog
from rankdeck_tui import rank_choice, stops
from rankdeck_tui.logs.folded import FoldedLog
from rankdeck_tui.logs.merged import MergedLog
from rankdeck_tui.logs.source import Log
from rankdeck_tui.logs.tiles import Fold, Target
from rankdeck_tui.look import Look, marks
from rankdeck_tui.look.draw import Part, Parts


class RunLogs:
    """What a log board needs to know of a run. Empty until `live` is set."""

    def __init__(self) -> None:
        self.live: LiveRun | None = None

    def path(self, target: Target, stream: str) -> Path:
        """The file of a rank's or launcher's stream (`out` or `err`): a rank's in its newest attempt."""
        if self.live is None:
            return Path("/nonexistent")
        logs = self.live.path / layout.LOGS
        if target.rank is not None:
            ranks = self.live.snapshot().ranks
            attempt = ranks[target.rank].attempt if target.rank < len(ranks) else 1
            return logs / layout.rank_log(target.rank, stream, attempt)
        for launcher in self.live.snapshot().launchers:
            if (launcher.node, launcher.process) == (target.node, target.process):
                # The name came with an event: only its last part may become a path.
                return logs / Path(launcher.err_log if stream == "err" else launcher.out_log).name
        return logs / "none"

    def ranks(self, target: Target) -> tuple[int, ...]:
        """Which ranks a target stands for."""
        if target.rank is not None:
            return (target.rank,)
        if not target.many or self.live is None:
            return ()
        try:
            return rank_choice.chosen(target.many, self.live.snapshot())
        except RankdeckError:  # it was read when it was typed; a rank that moved away is no news here
            return ()

    def files(self, target: Target, streams: Sequence[str]) -> Sequence[Path]:
        """The files of many ranks, each rank's in its newest attempt."""
        return [log.log for log in self._timed(target, streams, {})]

    def log(self, target: Target, streams: Sequence[str], fold: Fold) -> Log:
        """The lines of many ranks, by time or folded."""
        skews = {} if self.live is None else clock_skews(self.live.path / layout.EVENTS)
        logs = self._timed(target, streams, skews)
        if fold is Fold.LINES:
            return MergedLog(logs, lambda: self.ended)
        return FoldedLog(logs, self.ranks(target), lambda: self.ended, odd_only=fold is Fold.ODD)

    def _timed(self, target: Target, streams: Sequence[str], skews: Mapping[str, float]) -> list[TimedLog]:
        if self.live is None:
            return []
        logs = self.live.path / layout.LOGS
        return timed_logs(logs, self.live.snapshot(), self.ranks(target), streams, skews)

    def about(self, target: Target, look: Look) -> Parts:
        """Node and state, for the tile's title."""
        ink = look.ink
        if target.many:
            return []
        if target.rank is None:
            return [(target.node, ink.dim)]
        snapshot = self.live.snapshot() if self.live else None
        if snapshot is None or target.rank >= len(snapshot.ranks):
            return []
        rank = snapshot.ranks[target.rank]
        parts: list[Part] = [(rank.node, ink.dim), ("  ", ink.text)]
        if rank.attempt > 1:
            parts.append((f"attempt {rank.attempt}  ", ink.dim))
        parts += marks.mark(stops.state_of(rank, stops.kill_times(snapshot)), look, letters=False)
        failed = ink.bad if rank.state is RankState.FAILED else ink.dim
        if rank.signal:
            parts.append((f" SIG{rank.signal}", failed))
        elif rank.exit_code:
            parts.append((f" exit {rank.exit_code}", failed))
        return parts

    def nothing(self, target: Target) -> str:
        """What an empty log's tile says."""
        snapshot = self.live.snapshot() if self.live else None
        if target.many:
            if not self.ranks(target):
                return "No rank has failed." if target.many == rank_choice.FAILED else "No such rank."
            return "They wrote nothing here." if self.ended else "Nothing written yet."
        if snapshot is None or target.rank is None or target.rank >= len(snapshot.ranks):
            return "Nothing written."
        state = snapshot.ranks[target.rank].state
        if state is RankState.WAITING:
            return "Not started yet."
        return "It wrote nothing here." if state.is_terminal else "Nothing written yet."

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written to any log."""
        return self.live is not None and self.live.snapshot().complete
