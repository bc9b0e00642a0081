"""The one choke point for foreign text: bytes in, harmless text with styles as plain data out.

What comes out holds no control character, no bidirectional override and no line break, whatever went in, so
no log line can drive the terminal it is shown on. Colours and the like (SGR sequences) are kept as spans;
every other control sequence (titles, clipboard writes, cursor movement, clear screen, links) is dropped.
The bytes on disk stay as they are.

Sequences as in ECMA-48, fifth edition, 5.4 (control sequences) and 5.6 (control strings).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from rankdeck_runs.sgr import PLAIN, Style, styled

TAB_WIDTH = 8

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_PLAIN_ASCII = re.compile(rb"[\x20-\x7e]*")

_SEQUENCE = re.compile(
    r"""
      \x1b\[ (?P<params>[0-?]*) (?P<between>[ -/]*) (?P<final>[@-~]?)      # CSI; cut short at the line's end
    | \x1b[\]PX^_] [^\x07\x1b\r\n]* (?: \x07 | \x1b\\ )?                     # OSC, DCS, SOS, PM, APC strings
    | \x1b [ -/]* [0-~]?                                                    # other escapes
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text with one style."""

    start: int
    """Index of its first character; `end` is one past its last."""
    end: int
    style: Style


@dataclass(frozen=True, slots=True)
class Spans:
    """One line, ready to be drawn."""

    text: str
    spans: tuple[Span, ...] = ()
    """In order, without overlaps; text outside of them is plain."""


def clean(data: bytes) -> Spans:
    """One line of foreign bytes as text with styles.

    Args:
        data: the line's bytes. A line end at its end is left out; one inside is shown as a picture. Of a
            line that rewrites itself with carriage returns (progress bars), what was written last is kept.
    """
    if _PLAIN_ASCII.fullmatch(data):
        return Spans(data.decode("ascii"))
    text = _last_frame(data.decode("utf-8", "replace"))
    if text.isprintable() and text.isascii():
        return Spans(text)
    return _parse(text)


def plain(data: bytes) -> str:
    """One line of foreign bytes as text without styles; doing it twice changes nothing more."""
    return clean(data).text


def _last_frame(text: str) -> str:
    """What a terminal would still show of a line with carriage returns, as far as whole frames go."""
    text = text.rstrip("\n")
    if "\r" not in text:
        return text
    for frame in reversed(text.split("\r")):
        if _SEQUENCE.sub("", frame):
            return frame
    return ""


def _parse(text: str) -> Spans:
    pieces: list[str] = []
    spans: list[Span] = []
    style = PLAIN
    length = position = 0
    for match in _SEQUENCE.finditer(text):
        piece = _harmless(text[position : match.start()], length)
        position = match.end()
        length = _add(pieces, spans, piece, length, style)
        if match["final"] == "m" and not match["between"]:
            style = styled(style, match["params"])
    _add(pieces, spans, _harmless(text[position:], length), length, style)
    return Spans("".join(pieces), tuple(spans))


def _add(pieces: list[str], spans: list[Span], piece: str, start: int, style: Style) -> int:
    if not piece:
        return start
    pieces.append(piece)
    end = start + len(piece)
    if style != PLAIN:
        if spans and spans[-1].end == start and spans[-1].style == style:
            spans[-1] = Span(spans[-1].start, end, style)
        else:
            spans.append(Span(start, end, style))
    return end


def _harmless(text: str, column: int) -> str:
    """Text without anything that is not drawn as a character of its own.

    Args:
        text: text without escape sequences.
        column: how many characters stand before it on the line, for tabs.
    """
    if text.isprintable():
        return text
    result: list[str] = []
    for character in text:
        if character == "\t":
            width = TAB_WIDTH - column % TAB_WIDTH
            result.append(" " * width)
            column += width
        else:
            result.append(character if character.isprintable() else _picture(character))
            column += 1
    return "".join(result)


def _picture(character: str) -> str:
    """A stand-in for a character that is not printable."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    if character in _JOINERS:
        return character
    # Space-like ones become a space; C1 controls, bidi controls, line separators, surrogates and the
    # unassigned don't.
    return " " if unicodedata.category(character) == "Zs" else REPLACEMENT


_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Needed to write Persian and some Indic scripts, and emoji; they move nothing but their neighbours'
shapes."""
