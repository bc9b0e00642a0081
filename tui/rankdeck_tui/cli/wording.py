"""Moments and endings in the words people read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_runs.states import RankStatus


def unix(iso: str | None) -> float | None:
    """ISO 8601 time as unix seconds; None for None and for what is no time."""
    if iso is None:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(iso).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def ending(rank: RankStatus) -> str:
    """How a rank ended: `exit status 1`, `signal KILL`, or why that is not known."""
    if rank.signal is not None:
        return f"signal {rank.signal}"
    if rank.exit_code is not None:
        return f"exit status {rank.exit_code}"
    return rank.why or "exit status unknown"
