"""Draws one log tile: border, title, what its views have in sight."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip

from rankdeck_tui import words
from rankdeck_tui.logs.tiles import Tile
from rankdeck_tui.logs.view import LogView
from rankdeck_tui.look import Look, draw
from rankdeck_tui.look.draw import Part, Parts

_SECOND_SHARE = 3
"""Where both streams are shown, stderr gets one row in three."""


def paint(
    tile: Tile,
    size: Size,
    look: Look,
    about: Parts,
    nothing: str,
    *,
    focused: bool,
    chosen: bool,
    ended: bool,
    place: str = "",
) -> list[Strip]:
    """One tile.

    Args:
        tile: what to show.
        size: cells and rows of the tile.
        look: inks and glyphs.
        about: what follows the target's name in the title.
        nothing: what an empty log says.
        focused: True where keys go to this tile.
        ended: True where nothing more will be written.
        place: which of several tiles this is, where the others are not in sight.
        chosen: True for the tile that would get them if the board had the focus, among others.
    """
    ink = look.ink
    width, height = max(0, size.width - 2), max(0, size.height - 2)
    dot: Part = (f" {look.glyphs.dot} ", ink.faint)
    title: list[Part] = [(tile.target.title, ink.title_focus if focused or chosen else ink.title)]
    title += [dot, (place, ink.dim)] if place else []
    title += [dot, *about] if about else []
    title += [dot, (str(tile.stream), ink.text)]
    title += [dot, (str(tile.fold), ink.text)] if tile.target.many else []
    begin = tile.view.log.begin
    title += [dot, (f"since {words.clock(begin)}", ink.warn)] if begin is not None else []
    rows: list[Strip] = []
    if len(tile.views) == 1:
        rows = _view_rows(tile.view, width, height, look, nothing)
        aside = _status(tile.view, look, ended)
    else:
        second = max(1, height // _SECOND_SHARE)
        first = max(1, height - second - 1)
        upper = _view_rows(tile.views[0], width, first, look, nothing)
        upper += [Strip.blank(width, ink.text)] * (first - len(upper))
        rule = _rule(
            "err", _status(tile.views[1], look, ended), width, look, active=focused and tile.active == 1
        )
        rows = [*upper, rule, *_view_rows(tile.views[1], width, second, look, nothing)]
        aside = _status(tile.views[0], look, ended)
    border = ink.border_focus if focused else ink.border
    thumb = None
    if not tile.view.follow and not tile.view.all_in_view:
        thumb = (round(tile.view.place * max(0, height - 1)), 1)
    return draw.frame(
        title, rows, size.width, size.height, look.glyphs, border, ink.text,
        aside=aside, thumb=thumb, thumb_style=ink.lost,
    )  # fmt: skip


def _view_rows(view: LogView, width: int, height: int, look: Look, nothing: str) -> list[Strip]:
    rows = view.rows(width, height, look)
    if rows:
        return rows
    text = nothing
    if view.filter is not None and view.source.size:
        text = f"No line {'without' if view.filter.inverted else 'with'} {view.filter.text!r} so far."
    return [draw.line([(" " + text, look.ink.dim)], width, look.ink.text)]


def _status(view: LogView, look: Look, ended: bool) -> list[Part]:
    """Filter, search, and whether it follows."""
    ink = look.ink
    parts: list[Part] = []
    gap: Part = ("  ", ink.text)
    if view.filter is not None:
        found, share = view.source.progress
        progress = "" if share >= 1 else f" {share:.0%} read"
        parts += [
            (f"/{view.filter.typed}", ink.accent),
            (f" {found:,}{progress}", ink.dim),
            gap,
        ]
    if view.no_hit:
        parts += [(view.no_hit, ink.warn), gap]
    elif view.query is not None:
        state = f"searching {view.query.text}" if view.searching else f"n: {view.query.text}"
        parts += [(state, ink.accent), gap]
    if view.wrap:
        parts += [("wrap", ink.dim), gap]
    elif view.left:
        parts += [(f"+{view.left} columns", ink.dim), gap]
    if view.follow:
        parts.append(("END", ink.dim) if ended else ("FOLLOW", ink.follow))
    elif ended:  # nothing comes that could be missed
        parts.append(("END" if view.ends_in_view else f"{view.place:.0%}", ink.dim))
    else:
        more = "" if view.behind.complete else "+"
        parts.append((f" PAUSED +{view.behind.lines:,}{more} ", ink.paused))
    return parts


def _rule(name: str, status: Parts, width: int, look: Look, *, active: bool) -> Strip:
    """The line between stdout and stderr."""
    ink = look.ink
    style = ink.border_focus if active else ink.border
    head: list[Part] = [
        (look.glyphs.across + " ", style),
        (name, ink.title_focus if active else ink.title),
        (" ", style),
    ]
    tail: list[Part] = [(" ", style), *status, (" " + look.glyphs.across, style)]
    if draw.measure(head) + draw.measure(tail) > width:
        tail = []
    fill = max(0, width - draw.measure(head) - draw.measure(tail))
    parts = [*head, (look.glyphs.across * fill, style), *tail]
    return Strip([Segment(text, style) for text, style in parts]).adjust_cell_length(width, ink.text)
