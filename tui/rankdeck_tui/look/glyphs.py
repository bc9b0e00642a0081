"""The characters that chrome is drawn with: a set for UTF-8 terminals, one in ASCII. Each takes one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Glyphs(NamedTuple):
    """One complete set."""

    running: str
    succeeded: str
    failed: str
    stopped: str
    waiting: str
    lost: str
    unknown: str
    starting: str
    stopping: str
    checking: str
    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    across: str
    down: str
    ellipsis: str
    dot: str
    """Between two facts on one line."""
    arrow: str
    cursor: str
    warning: str
    full: str
    empty: str
    thumb: str
    track: str
    left: str
    right: str
    wrap: str
    """Marks a row that goes on with the line above."""
    parts: str
    """Bar ends between an empty and a full cell, thinnest first; may be none."""
    unicode: bool


UNICODE = Glyphs(
    running="●",
    succeeded="✓",
    failed="✗",
    stopped="■",
    waiting="○",
    lost="▒",
    unknown="?",
    starting="◐",
    stopping="◑",
    checking="◌",
    top_left="╭",
    top_right="╮",
    bottom_left="╰",
    bottom_right="╯",
    across="─",
    down="│",
    ellipsis="…",
    dot="·",
    arrow="→",
    cursor="▌",
    warning="!",
    full="━",
    empty="─",
    thumb="┃",
    track="│",
    left="‹",
    right="›",
    wrap="↪",
    parts="╸",
    unicode=True,
)

ASCII = Glyphs(
    running="#",
    succeeded="+",
    failed="x",
    stopped="=",
    waiting=".",
    lost="%",
    unknown="?",
    starting=">",
    stopping="<",
    checking=":",
    top_left="+",
    top_right="+",
    bottom_left="+",
    bottom_right="+",
    across="-",
    down="|",
    ellipsis="~",
    dot="-",
    arrow=">",
    cursor=">",
    warning="!",
    full="=",
    empty="-",
    thumb="#",
    track="|",
    left="<",
    right=">",
    wrap="\\",
    parts="",
    unicode=False,
)


def choose(environ: Mapping[str, str]) -> Glyphs:
    """The set this terminal can show.

    `RANKDECK_GLYPHS` (`unicode` or `ascii`) decides; else the Linux console, whose font lacks most shapes,
    and a locale that names another character set than UTF-8 get ASCII.

    Args:
        environ: the process's environment.
    """
    asked = environ.get("RANKDECK_GLYPHS", "")
    if asked in ("ascii", "unicode"):
        return ASCII if asked == "ascii" else UNICODE
    if environ.get("TERM") in ("linux", "vt100", "vt220", "dumb"):
        return ASCII
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    if not locale or "utf-8" in locale.lower() or "utf8" in locale.lower():
        return UNICODE
    return ASCII
