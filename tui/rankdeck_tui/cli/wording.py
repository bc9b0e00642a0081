"""Times, sizes and lists of ranks in the words people read and type."""

from __future__ import annotations

import time

from rankdeck_profiles.errors import RankdeckError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankdeck_runs.states import RankStatus


class RankSetError(RankdeckError):
    """A list of ranks on the command line can't be read, or names ranks that aren't there."""


def duration(seconds: float | None) -> str:
    """A length of time with its two largest units: `4 s`, `3 m 12 s`, `2 h 5 m`, `1 d 3 h`; `-` for None."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {below}"
    return f"{whole} s"


def moment(seconds: float | None) -> str:
    """Unix seconds as local date and time; `-` for None and for what no calendar holds."""
    if seconds is None:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "-"


def unix(iso: str | None) -> float | None:
    """ISO 8601 time as unix seconds; None for None and for what is no time."""
    if iso is None:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(iso).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def size(count: int | None) -> str:
    """A number of bytes in binary units: `512 B`, `1.5 KiB`; `-` for None."""
    if count is None:
        return "-"
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 rank`, `4 ranks`; `plural` for words that don't just get an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


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
                    f"--rank {text!r}: there is no rank {edge}", f"ranks here: {as_ranges(existing)}"
                )
        wanted.update(range(first, last + 1))
    return tuple(sorted(wanted.intersection(existing)))


def as_ranges(numbers: Iterable[int]) -> str:
    """Numbers as a list with ranges: `0,3-5`; `none` for no numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"
