"""Numbers and moments as people read them, on the screens and on the command line alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, PoolNode
    from rankdeck_runs.states import SweptProcess


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 rank`, `4 ranks`; `many` for nouns that don't just get an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def duration(seconds: float | None) -> str:
    """Seconds as `41s`, `3:07`, `3:12:04` or `2d 04:11`; `-` for None."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes}:{rest:02}"
    days, hours_left = divmod(hours, 24)
    return f"{days}d {hours_left:02}:{minutes:02}" if days else f"{hours}:{minutes:02}:{rest:02}"


def age(seconds: float | None) -> str:
    """Seconds as a short age: `now`, `12s`, `5m`, `3h`, `2d`."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return "now"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // 86400)}d"


def size(count: float | None) -> str:
    """Bytes as `812 B`, `1.4 kB`, `3.2 MB`; `-` for None. Decimal, as `ls --si` and disk makers count."""
    if count is None:
        return "-"
    if count < 1000:
        return f"{int(count)} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{value / 1000:.1f} TB"


def memory(mib: float | None) -> str:
    """MiB as `812M`, `64G`; `-` for None."""
    if mib is None:
        return "-"
    return f"{mib:.0f}M" if mib < 1000 else f"{mib / 1024:.1f}G" if mib < 100 * 1024 else f"{mib / 1024:.0f}G"


def clock(moment: float | None) -> str:
    """Unix seconds as this machine's time of day; `--:--:--` for None and for what no calendar holds."""
    if moment is None:
        return "--:--:--"
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "--:--:--"


def moment(seconds: float | None) -> str:
    """Unix seconds as this machine's date and time; `-` for None and for what no calendar holds."""
    if seconds is None:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "-"


def slots(pool: Pool) -> str:
    """How many ranks its nodes take: `8`, `4-8` where they differ, `auto` where the nodes are asked."""
    each = {pool.slots if node.slots is None else node.slots for node in pool.nodes}
    known = sorted(count for count in each if count is not None)
    if not known:
        return "auto"
    if None in each:
        return "mixed"
    return str(known[0]) if len(known) == 1 else f"{known[0]}-{known[-1]}"


def slots_of(node: PoolNode, pool: Pool) -> str:
    """How many ranks one node takes."""
    count = pool.slots if node.slots is None else node.slots
    return "auto" if count is None else str(count)


def gpus_of(node: PoolNode) -> str:
    """Which GPUs of a node are used: `all`, `0,2`, `all but 1`."""
    if node.gpus is not None:
        return ",".join(map(str, node.gpus))
    return "all but " + ",".join(map(str, node.hidden_gpus)) if node.hidden_gpus else "all"


def as_ranges(numbers: Iterable[int]) -> str:
    """Numbers as a list with ranges: `0,3-5`; `none` for no numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"


def swept(processes: Sequence[SweptProcess]) -> list[str]:
    """How many left-over processes of which rank were ended on which node."""
    counts = Counter((process.node, process.rank) for process in processes)
    return [
        f"ended on {node}: {plural(count, 'left-over process', 'left-over processes')}"
        + ("" if rank is None else f" of rank {rank}")
        for (node, rank), count in counts.items()
    ]
