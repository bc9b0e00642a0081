"""`rankdeck logs --merge`: ranks' lines in the order of time."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable

from rankdeck_runs.sanitise import clean
from rankdeck_runs.timeline import TimedLog, merged
from rankdeck_tui.cli import output
from rankdeck_tui.cli.ansi import coloured
from rankdeck_tui.cli.ranklines import colour_of, node_of


def print_merged(logs: Iterable[TimedLog], pattern: re.Pattern[str] | None) -> None:
    """Prints the lines, each with its time.

    Args:
        logs: whose lines.
        pattern: only lines in which it is found.
    """
    colours = output.colourful(sys.stdout)
    for found in merged(logs):
        line = clean(found.line.data)
        if pattern is not None and not pattern.search(line.text):
            continue
        log = found.log
        prefix = f"[{log.rank} {output.printable(node_of(log.node, log.attempt))}]"
        if colours:
            prefix = output.paint(prefix, colour_of(log.rank), sys.stdout)
        sys.stdout.write(f"{clock(found.seconds)} {prefix} {coloured(line) if colours else line.text}\n")
    sys.stdout.flush()


def clock(seconds: float | None) -> str:
    """This machine's time of day to a tenth of a second: the index knows no better."""
    if seconds is None:
        return "--:--:--.-"
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(seconds * 10) % 10}"
    except (ValueError, OverflowError, OSError):
        return "--:--:--.-"
