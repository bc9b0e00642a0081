"""Lines that begin with who said them and when: of the panes that show many ranks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rankdeck_profiles.matching import short
from rankdeck_runs.logs import Line
from rankdeck_tui.look import Look
from rankdeck_tui.look.draw import pad

_COLOURS: Final = (
    "#6fa8ff", "#35c49a", "#d48cb8", "#56c8d8", "#9cc4ff", "#6fdcb8", "#e8b0d2", "#8be0ec", "#a9b6c4",
)  # fmt: skip
"""Cycled through by rank. Without red and yellow: those are for errors and warnings."""

NO_TIME: Final = "--:--:--.-"


@dataclass(frozen=True, slots=True)
class HeadedLine(Line):
    """A line and what stands before it."""

    head: str
    """As wide in all lines of a pane."""
    rank: int | None
    """Gives the head its colour; None: no single rank's."""
    stream: str
    """`out` or `err`; empty: it goes on with the line above, or is a remark."""
    remark: bool = False
    """Not a rank's words but ours."""


def moment(seconds: float | None) -> str:
    """This machine's time of day to a tenth of a second: the side index knows no better."""
    if seconds is None:
        return NO_TIME
    try:
        return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(seconds * 10) % 10}"
    except (ValueError, OverflowError, OSError):
        return NO_TIME


def place(node: str, rank: int, width: int) -> str:
    """`n3:17`, as wide as wanted: of a long node name the beginning goes first, ends tell nodes apart."""
    name, end = short(node), f":{rank}"
    room = max(0, width - len(end))
    return pad((name if len(name) <= room else name[len(name) - room :]) + end, width)


def head_of(line: Line, look: Look) -> Strip | None:
    """What stands before the line, stderr with an E; None for a line without a head."""
    if not isinstance(line, HeadedLine):
        return None
    ink = look.ink
    style = ink.dim
    if ink.colour and line.rank is not None:
        style = ink.text + Style(color=_COLOURS[line.rank % len(_COLOURS)])
    mark = "E" if line.stream == "err" else " "
    bar = ink.bad if line.stream == "err" else ink.faint
    return Strip([Segment(f"{line.head} ", style), Segment(mark + look.glyphs.down, bar)])
