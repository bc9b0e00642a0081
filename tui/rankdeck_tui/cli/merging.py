"""`rankdeck logs --merge`: ranks' lines in the order of time."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Sequence

from rankdeck_runs import events
from rankdeck_runs.failures import SKEW_THAT_COUNTS
from rankdeck_runs.record import Record
from rankdeck_runs.sanitise import clean
from rankdeck_runs.states import RunSnapshot
from rankdeck_runs.timeline import TimedLog, merged
from rankdeck_runs.values import number, text
from rankdeck_tui.cli import output
from rankdeck_tui.cli.ansi import coloured
from rankdeck_tui.cli.ranklines import LogSource, rank_sources


def print_merged(
    record: Record,
    snapshot: RunSnapshot,
    ranks: Iterable[int],
    streams: Sequence[str],
    pattern: re.Pattern[str] | None,
    attempt: int | None,
) -> None:
    """Prints the lines, each with its time. Launchers' output has no times, and is left out.

    Args:
        record: the run's.
        snapshot: what it says.
        ranks: whose lines.
        streams: of `out` and `err`.
        pattern: only lines in which it is found.
        attempt: of a launcher that starts its ranks again; None: each rank's newest.
    """
    skews = _skews(record)
    sources: dict[TimedLog, LogSource] = {}
    for source in rank_sources(record.logs_path, snapshot, ranks, streams, attempt):
        skew = skews.get(source.node.partition(",")[0], 0.0)
        index = source.path.with_suffix(".times")
        sources[TimedLog(source.path, index, source.stream, skew)] = source
    colours = output.colourful(sys.stdout)
    for found in merged(sources):
        line = clean(found.line.data)
        if pattern is not None and not pattern.search(line.text):
            continue
        source = sources[found.log]
        prefix = f"[{source.label} {output.printable(source.node)}]"
        if colours:
            prefix = output.paint(prefix, source.colour, sys.stdout)
        sys.stdout.write(f"{_clock(found.seconds)} {prefix} {coloured(line) if colours else line.text}\n")
    sys.stdout.flush()


def _skews(record: Record) -> dict[str, float]:
    """Node -> seconds that its clock was ahead at the last connection, where that counts."""
    found: dict[str, float] = {}
    for event in events.read(record.events_path):
        if event["ev"] == "link_up":
            skew = number(event, "skew") or 0.0
            found[text(event, "node")] = skew if abs(skew) > SKEW_THAT_COUNTS else 0.0
    return found


def _clock(seconds: float | None) -> str:
    """This machine's time of day to a tenth of a second: the index knows no better."""
    if seconds is None:
        return "--:--:--.-"
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(seconds * 10) % 10}"
    except (ValueError, OverflowError, OSError):
        return "--:--:--.-"
