"""Styled text as terminal sequences: only what we write ourselves, from styles as data."""

from __future__ import annotations

from rankdeck_runs.sanitise import Spans
from rankdeck_runs.sgr import Color, Style

RESET = "\x1b[0m"

_FLAGS = (("bold", "1"), ("dim", "2"), ("italic", "3"), ("underline", "4"), ("reverse", "7"), ("strike", "9"))


def coloured(line: Spans) -> str:
    """A line with its styles as SGR sequences (ECMA-48 8.3.117), each stretch closed again."""
    pieces: list[str] = []
    position = 0
    for span in line.spans:
        pieces += [
            line.text[position : span.start],
            _sequence(span.style),
            line.text[span.start : span.end],
            RESET,
        ]
        position = span.end
    return "".join([*pieces, line.text[position:]])


def _sequence(style: Style) -> str:
    codes = [code for flag, code in _FLAGS if getattr(style, flag)]
    for color, base in ((style.foreground, 30), (style.background, 40)):
        if color is not None:
            codes.append(_color(color, base))
    return f"\x1b[{';'.join(codes)}m"


def _color(color: Color, base: int) -> str:
    if isinstance(color, tuple):
        return f"{base + 8};2;{color[0]};{color[1]};{color[2]}"
    if color < 8:
        return str(base + color)
    if color < 16:
        return str(base + 60 + color - 8)
    return f"{base + 8};5;{color}"
