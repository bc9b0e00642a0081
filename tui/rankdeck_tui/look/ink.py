"""The styles everything is painted with: one set in colour, one for terminals where NO_COLOR is set.

Foreground colours keep a contrast of at least 4.5:1 on all backgrounds (tests hold that). State colours
follow Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), which colour-blind people can tell apart:
sky blue, bluish green, vermillion, orange, yellow and reddish purple.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import cast

from rich.color import Color
from rich.style import Style

BASE = "#11151b"
"""The background of everything."""
CURSOR = "#26364a"
"""The background of the row or cell the cursor is on, in the focused pane."""
IDLE_CURSOR = "#1d2631"
"""The same in a pane without focus."""


@dataclass(frozen=True, slots=True)
class Ink:
    """One complete set of styles. Every style carries its background, since widgets paint finished cells."""

    text: Style
    dim: Style
    faint: Style
    """Lines, rules and empty bars: may be overlooked."""
    strong: Style
    accent: Style
    border: Style
    border_focus: Style
    title: Style
    title_focus: Style
    key: Style
    good: Style
    busy: Style
    waiting: Style
    warn: Style
    bad: Style
    stopped: Style
    lost: Style
    match: Style
    """A search hit."""
    paused: Style
    follow: Style
    danger_title: Style
    """The title of a failure's banner."""
    cursor: Style
    idle_cursor: Style
    colour: bool = True
    """False: attributes only (NO_COLOR)."""
    _blends: dict[tuple[Style, Style], Style] = field(default_factory=dict, repr=False, compare=False)

    def over(self, style: Style, ground: Style) -> Style:
        """`style` as it looks where the cursor is (cached: asked for on every painted row).

        Args:
            style: one of this set's styles.
            ground: `cursor` or `idle_cursor`.
        """
        blend = self._blends.get((style, ground))
        if blend is None:
            blend = self._blends[style, ground] = style + ground
        return blend

    def names(self) -> dict[str, Style]:
        """Every style by its name."""
        return {
            entry.name: cast(Style, getattr(self, entry.name))
            for entry in fields(self)
            if isinstance(getattr(self, entry.name), Style)
        }


def _on(colour: str, *, bold: bool = False, ground: str = BASE) -> Style:
    return Style(color=colour, bgcolor=ground, bold=bold or None)


def in_colour() -> Ink:
    """The dark set."""
    return Ink(
        text=_on("#cdd6e0"),
        dim=_on("#96a4b3"),
        faint=_on("#4a5768"),
        strong=_on("#f2f6fa", bold=True),
        accent=_on("#7fc4f5"),
        border=_on("#3a4757"),
        border_focus=_on("#7fc4f5"),
        title=_on("#a9b6c4", bold=True),
        title_focus=_on("#f2f6fa", bold=True),
        key=_on("#7fc4f5", bold=True),
        good=_on("#35c49a"),
        busy=_on("#5cb8f0"),
        waiting=_on("#96a4b3"),
        warn=_on("#e8c547"),
        bad=_on("#ff7a52", bold=True),
        stopped=_on("#d48cb8"),
        lost=_on("#f0a23c"),
        match=Style(color="#11151b", bgcolor="#e8c547", bold=True),
        paused=Style(color="#11151b", bgcolor="#f0a23c", bold=True),
        follow=_on("#35c49a", bold=True),
        danger_title=Style(color="#11151b", bgcolor="#ff7a52", bold=True),
        cursor=Style(bgcolor=CURSOR),
        idle_cursor=Style(bgcolor=IDLE_CURSOR),
    )


def without_colour() -> Ink:
    """Attributes only, on the terminal's own colours."""
    plain, bold, dim = Style(), Style(bold=True), Style(dim=True)
    reverse = Style(reverse=True)
    return Ink(
        text=plain,
        dim=plain,
        faint=dim,
        strong=bold,
        accent=bold,
        border=dim,
        border_focus=bold,
        title=plain,
        title_focus=bold,
        key=bold,
        good=plain,
        busy=plain,
        waiting=dim,
        warn=bold,
        bad=bold,
        stopped=plain,
        lost=bold,
        match=reverse,
        paused=reverse,
        follow=bold,
        danger_title=reverse,
        cursor=reverse,
        idle_cursor=Style(underline=True),
        colour=False,
    )


def contrast(front: str, ground: str) -> float:
    """The contrast ratio of two colours after WCAG 2.1 (1 to 21)."""
    lights = sorted((_luminance(front), _luminance(ground)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def _luminance(colour: str) -> float:
    channels = [part / 255 for part in Color.parse(colour).get_truecolor()]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
