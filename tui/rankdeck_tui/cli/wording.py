"""Endings and lists of ranks in the words people read and type."""

from __future__ import annotations

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankdeck_runs.states import RankStatus


class RankSetError(RankdeckError):
    """A list of ranks on the command line can't be read, or names ranks that aren't there."""


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


def ranks_of(text: str, known: Iterable[int]) -> tuple[int, ...]:
    """Reads a list of ranks such as `0,3-5`.

    Args:
        text: numbers and ranges, joined by commas.
        known: the ranks that exist.

    Returns:
        The ranks, ascending, each once.

    Raises:
        RankSetError: it is no such list, or a rank in it does not exist.
    """
    import re

    existing = sorted(known)
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", part, re.ASCII)
        if match is None:
            raise RankSetError(
                f"--rank {text!r}: {part!r} is neither a rank nor a range", "write --rank 0,3-5"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise RankSetError(
                f"--rank {text!r}: the range {part.strip()} runs backwards", f"write {last}-{first}"
            )
        # Compared before the range is made: 0-99999999999 is a typing error, not a list to build.
        for edge in (first, last):
            if not existing or not existing[0] <= edge <= existing[-1]:
                raise RankSetError(
                    f"--rank {text!r}: there is no rank {edge}", f"ranks here: {words.as_ranges(existing)}"
                )
        wanted.update(range(first, last + 1))
    return tuple(sorted(wanted.intersection(existing)))
