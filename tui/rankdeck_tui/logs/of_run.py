"""The logs of one run: where each one's file is, and what its tile says about it."""

from __future__ import annotations

from pathlib import Path

from rankdeck_runs import layout
from rankdeck_runs.live import LiveRun
from rankdeck_runs.states import RankState
from rankdeck_tui import stops
from rankdeck_tui.logs.tiles import Target
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

    def about(self, target: Target, look: Look) -> Parts:
        """Node and state, for the tile's title."""
        ink = look.ink
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
