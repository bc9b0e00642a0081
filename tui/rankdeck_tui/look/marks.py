"""Each state's mark: shape, letter, word and style, so that no state is told by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.style import Style

from rankdeck_runs.live import LinkState
from rankdeck_runs.states import NodeState, RankState, RunState
from rankdeck_tui.look import Look
from rankdeck_tui.look.draw import Part

State = RunState | NodeState | RankState | LinkState


@dataclass(frozen=True, slots=True)
class _Mark:
    shape: str
    """Name of the glyph."""
    letter: str
    ink: str
    """Name of the style."""


# Keyed by word: the enums share their words, and a word has one mark wherever it shows up.
_MARKS: Final = {
    "waiting": _Mark("waiting", "W", "waiting"),
    "checking": _Mark("checking", "C", "waiting"),
    "starting": _Mark("starting", "B", "busy"),
    "running": _Mark("running", "R", "busy"),
    "stopping": _Mark("stopping", "E", "warn"),
    "succeeded": _Mark("succeeded", "S", "good"),
    "failed": _Mark("failed", "F", "bad"),
    "stopped": _Mark("stopped", "T", "stopped"),
    "lost": _Mark("lost", "L", "lost"),
    "unknown": _Mark("unknown", "U", "warn"),
    "connecting": _Mark("starting", "C", "waiting"),
    "connected": _Mark("running", "K", "good"),
    "ended": _Mark("stopped", "E", "dim"),
}


def shape(state: State, look: Look) -> str:
    """The state's one-cell shape."""
    return str(getattr(look.glyphs, _MARKS[str(state)].shape))


def letter(state: State) -> str:
    """The state's letter."""
    return _MARKS[str(state)].letter


def style(state: State, look: Look) -> Style:
    """The state's style."""
    found = getattr(look.ink, _MARKS[str(state)].ink)
    assert isinstance(found, Style)
    return found


def mark(state: State, look: Look, *, letters: bool = True, word: bool = True) -> list[Part]:
    """Shape, letter and word of a state as parts, such as `● R running`.

    Args:
        state: the state.
        look: inks and glyphs.
        letters: False leaves the letter out.
        word: False leaves the word out.
    """
    entry = _MARKS[str(state)]
    text = shape(state, look)
    if letters:
        text += " " + entry.letter
    if word:
        text += " " + str(state)
    return [(text, style(state, look))]
