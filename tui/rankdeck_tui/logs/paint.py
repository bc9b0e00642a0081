"""A log line as cells: cleaned, in the colours its rank gave it, search hits marked."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rankdeck_runs.logs import Line
from rankdeck_runs.sanitise import Spans, clean
from rankdeck_runs.sgr import Style as Sgr
from rankdeck_tui import words
from rankdeck_tui.logs.headed import HeadedLine
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.look import Look

LONGEST_SHOWN: Final = 4_096
"""Characters of one line that are drawn; the rest is told as a size. A screen is rarely wider than 400."""

_THEME: Final = (
    "#5d6b7a", "#ff7a52", "#35c49a", "#e8c547", "#6fa8ff", "#d48cb8", "#56c8d8", "#cdd6e0",
    "#8b99a8", "#ff9c7d", "#6fdcb8", "#f5dc7a", "#9cc4ff", "#e8b0d2", "#8be0ec", "#f2f6fa",
)  # fmt: skip
"""What the 16 named colours look like here: each is readable on the background."""


def paint_line(line: Line, look: Look, pattern: Pattern | None, *, current: bool = False) -> Strip:
    """One line, as long as it is.

    Args:
        line: bytes of the rank.
        look: inks and glyphs.
        pattern: what to mark.
        current: True where the search stands.
    """
    ink = look.ink
    cut = len(line.data) - LONGEST_SHOWN
    # Characters take up to four bytes, and sequences are dropped: cut generously first, then exactly.
    spans = clean(line.data[: LONGEST_SHOWN * 4])
    text = spans.text[:LONGEST_SHOWN]
    ground = ink.warn if isinstance(line, HeadedLine) and line.remark else ink.text
    segments = [Segment(text, ground)] if not spans.spans else _coloured(spans, text, look)
    if pattern is not None and (hits := pattern.hits(text)):
        segments = _marked(segments, hits, ink.match)
    if len(spans.text) > LONGEST_SHOWN or cut > LONGEST_SHOWN * 3:
        segments.append(Segment(f"{look.glyphs.ellipsis}+{words.size(max(cut, 0))}", ink.warn))
    if current:
        # Hits keep their own background: it tells more than the cursor's.
        segments = [
            s if s.style is ink.match else Segment(s.text, (s.style or ink.text) + ink.cursor)
            for s in segments
        ]
    return Strip(segments, len(text) if text.isascii() and len(segments) == 1 else None)


def _coloured(spans: Spans, text: str, look: Look) -> list[Segment]:
    ink = look.ink
    segments: list[Segment] = []
    position = 0
    for span in spans.spans:
        if span.start > position:
            segments.append(Segment(text[position : span.start], ink.text))
        if piece := text[span.start : span.end]:
            segments.append(Segment(piece, ink.text + _style(span.style, ink.colour)))
        position = max(position, span.end)
    if position < len(text):
        segments.append(Segment(text[position:], ink.text))
    return [segment for segment in segments if segment.text]


@lru_cache(maxsize=512)
def _style(sgr: Sgr, colour: bool) -> Style:
    return Style(
        color=_colour(sgr.foreground) if colour else None,
        bgcolor=_colour(sgr.background) if colour else None,
        bold=sgr.bold or None,
        dim=sgr.dim or None,
        italic=sgr.italic or None,
        underline=sgr.underline or None,
        reverse=sgr.reverse or None,
        strike=sgr.strike or None,
    )


def _colour(value: int | tuple[int, int, int] | None) -> Color | None:
    if value is None:
        return None
    if isinstance(value, int):
        # The first 16 are the terminal's own theme, which may be unreadable on our background.
        return Color.parse(_THEME[value]) if value < len(_THEME) else Color.from_rgb(*_rgb(value))
    return Color.from_rgb(*value)


def _rgb(value: int) -> tuple[int, int, int]:
    """A colour of the 256-colour palette as red, green and blue."""
    red, green, blue = Color.from_ansi(value).get_truecolor()
    return red, green, blue


def _marked(segments: list[Segment], hits: list[tuple[int, int]], style: Style) -> list[Segment]:
    """The segments, split where hits begin and end."""
    marked: list[Segment] = []
    position = 0
    pending = iter(hits)
    hit = next(pending, None)
    for segment in segments:
        text, base = segment.text, segment.style
        start = 0
        while start < len(text):
            while hit is not None and hit[1] <= position + start:
                hit = next(pending, None)
            if hit is None or hit[0] >= position + len(text):
                marked.append(Segment(text[start:], base))
                break
            if hit[0] > position + start:
                end = hit[0] - position
                marked.append(Segment(text[start:end], base))
            else:
                end = min(hit[1] - position, len(text))
                marked.append(Segment(text[start:end], style))
            start = end
        position += len(text)
    return marked
