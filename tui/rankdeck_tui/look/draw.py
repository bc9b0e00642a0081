"""Strips from parts: the few ways in which lines, frames and bars are put together. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rankdeck_runs.sanitise import plain
from rankdeck_tui.look.glyphs import Glyphs

Part = tuple[str, Style]
"""A piece of text in one style."""
Parts = Sequence[Part]

LEAST_TITLE = 8
"""A title is cut to this before what stands beside it is left out."""


def cleaned(text: str) -> str:
    """`text` as one line that can't drive the terminal: what every piece of text passes before it is drawn.

    Names of nodes, messages of programs and paths come from elsewhere and may hold anything. Printable text,
    nearly all there is, costs one look.
    """
    return text if text.isprintable() else plain(text.encode("utf-8", "replace"))


@lru_cache(maxsize=4096)
def width_of(text: str) -> int:
    """How many cells `text` takes."""
    return len(text) if text.isascii() else cell_len(text)


def safe(strip: Strip) -> Strip:
    """The strip, or a cleaned one where a widget let something through: the last look before the terminal."""
    if strip.text.isprintable():
        return strip
    return Strip([Segment(cleaned(text), style) for text, style, _ in strip]).adjust_cell_length(
        strip.cell_length
    )


def clip(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` cut to at most `width` cells, ending in `ellipsis` where something was cut."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return ellipsis[:width]
    return set_cell_size(text, width - 1).rstrip() + ellipsis


def pad(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """`text` as exactly `width` cells; `right` aligns to the right."""
    text = clip(cleaned(text), width, ellipsis)
    blank = " " * (width - width_of(text))
    return blank + text if right else text + blank


def measure(parts: Iterable[Part]) -> int:
    """The cells `parts` take together."""
    return sum(width_of(text) for text, _ in parts)


def line(parts: Iterable[Part], width: int, fill: Style, *, ellipsis: str = "…") -> Strip:
    """One row of exactly `width` cells: `parts`, cut with an ellipsis or filled up with blanks.

    Args:
        parts: what to write.
        width: cells of the row.
        fill: the style of the blanks.
        ellipsis: what stands for text that was cut.
    """
    segments: list[Segment] = []
    left = width
    for text, style in parts:
        text = cleaned(text)
        cells = width_of(text)
        if cells > left:
            text = clip(text, left, ellipsis)
            cells = width_of(text)
            if text:
                segments.append(Segment(text, style))
                left -= cells
            break
        if text:
            segments.append(Segment(text, style))
            left -= cells
    if left > 0:
        segments.append(Segment(" " * left, fill))
    return Strip(segments, width)


def ends(start: Parts, end: Parts, width: int, fill: Style, *, ellipsis: str = "…") -> Strip:
    """One row with `start` at its left and `end` at its right; `start` gives way where both do not fit."""
    tail = measure(end)
    room = width - tail - (2 if end else 0)
    if room < 1:
        return line(start, width, fill, ellipsis=ellipsis)
    head = line(start, room, fill, ellipsis=ellipsis)
    if not end:
        return head
    return Strip.join([head, line([("  ", fill), *end], tail + 2, fill, ellipsis=ellipsis)])


def frame(
    title: Parts,
    body: Sequence[Strip],
    width: int,
    height: int,
    glyphs: Glyphs,
    border: Style,
    fill: Style,
    *,
    aside: Parts = (),
    thumb: tuple[int, int] | None = None,
    thumb_style: Style | None = None,
) -> list[Strip]:
    """A pane with a border: title at the top left, `aside` at the top right, `body` inside.

    Args:
        title: written into the top border.
        body: strips of `width - 2` cells; missing rows stay empty.
        width: cells of the whole pane.
        height: rows of the whole pane.
        glyphs: what the border is drawn with.
        border: the border's style.
        fill: the style of empty cells.
        aside: written into the top border's right end; the title gives way to it.
        thumb: first row inside and number of rows of a scroll thumb on the right border; None: no thumb.
        thumb_style: the thumb's style.
    """
    if width < 2 or height < 2:
        return [Strip.blank(max(width, 0), fill) for _ in range(max(height, 0))]
    inner = width - 2
    left = Segment(glyphs.down, border)
    rows = [_top(title, aside, inner, glyphs, border)]
    first, last = (thumb[0], thumb[0] + thumb[1]) if thumb else (0, 0)
    for y in range(height - 2):
        on_thumb = first <= y < last
        edge = Segment(glyphs.thumb, thumb_style or border) if on_thumb else left
        content = body[y] if y < len(body) else Strip.blank(inner, fill)
        rows.append(Strip([left, *content, edge], width))
    bottom = glyphs.bottom_left + glyphs.across * inner + glyphs.bottom_right
    rows.append(Strip([Segment(bottom, border)], width))
    return rows


def _top(title: Parts, aside: Parts, inner: int, glyphs: Glyphs, border: Style) -> Strip:
    aside = [(cleaned(text), style) for text, style in aside]
    title = [(cleaned(text), style) for text, style in title]
    tail: list[Part] = (
        [(" ", border), *aside, (" ", border), (glyphs.across, border)] if measure(aside) else []
    )
    head: list[Part] = [(glyphs.across + " ", border), *title, (" ", border)] if title else []
    if tail and inner - measure(tail) < min(LEAST_TITLE, measure(head)):
        tail = []
    room = max(0, inner - measure(tail))
    used = min(measure(head), room)
    rule = Segment(glyphs.across * (room - used), border)
    left = [Segment(glyphs.top_left, border), *line(head, used, border, ellipsis=glyphs.ellipsis), rule]
    right = [*line(tail, measure(tail), border), Segment(glyphs.top_right, border)]
    return Strip([*left, *right], inner + 2)


def thumb_of(first: float, shown: int, total: float, height: int) -> tuple[int, int] | None:
    """Where a scroll thumb stands.

    Args:
        first: what is above the view, in the unit of `total`.
        shown: rows of the view.
        total: everything.
        height: rows of the track.

    Returns:
        First row and number of rows; None where all is in view.
    """
    if total <= shown or height < 2:
        return None
    size = max(1, int(height * shown / total))
    room = height - size
    top = round(room * min(1.0, first / max(1.0, total - shown)))
    return top, size


def bar(share: float | None, width: int, glyphs: Glyphs, full: Style, empty: Style) -> list[Part]:
    """A bar of `width` cells, `share` of it (0 to 1) full; None: no value, all empty."""
    if share is None:
        return [(" " * width, empty)]
    share = min(1.0, max(0.0, share))
    steps = len(glyphs.parts) + 1
    filled = round(share * width * steps)
    whole, rest = divmod(filled, steps)
    head = glyphs.full * whole + (glyphs.parts[rest - 1] if rest else "")
    return [(head, full), (glyphs.empty * (width - len(head)), empty)]
