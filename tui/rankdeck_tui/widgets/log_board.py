"""The log board: one widget draws all log tiles. A repaint costs one pass, however many tiles there are."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click, MouseScrollDown, MouseScrollLeft, MouseScrollRight, MouseScrollUp
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from rankdeck_tui.logs.of_run import RunLogs
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.logs.tiles import MOST_TILES, Fold, Stream, Target, Tile, band_rows, rectangles
from rankdeck_tui.logs.view import LogView
from rankdeck_tui.widgets import log_keys, tile_painting
from rankdeck_tui.widgets.painted import Painted

LOWEST = 5
"""Rows of a tile that shows three of text; where that is not to be had, one tile takes the board."""


Arrangement = tuple[tuple[Target, Stream, bool], ...]
"""Of each tile: whose log it shows, which stream, and whether all of it and at its end, as it was opened."""


class Ask(StrEnum):
    """What the board needs a line of text for."""

    FILTER = "filter"
    SEARCH = "search"
    RANKS = "ranks"
    """Of many: which ones. Read by the screen."""


class LogBoard(Painted, can_focus=True):
    """All log tiles, with own scrolling by byte offset."""

    PANE = "logs"
    """What help calls it."""

    class TextWanted(Message):
        """A filter or a search is to be typed."""

        def __init__(self, ask: Ask, text: str) -> None:
            super().__init__()
            self.ask = ask
            self.text = text

    class TargetsChanged(Message):
        """Other logs are shown than before."""

    class Left(Message):
        """Tab on the last tile (or shift+tab on the first): the focus goes on."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    BINDINGS: ClassVar[list[BindingType]] = log_keys.BINDINGS

    def __init__(self, logs: RunLogs, *, id: str | None = None) -> None:
        """Make an empty board.

        Args:
            logs: where the run's logs are, and what is said about them.
            id: Textual's id.
        """
        super().__init__(id=id)
        self._logs = logs
        self.tiles: list[Tile] = []
        self.focused_tile = 0
        self._regions: list[Region] = []
        self._pictures: dict[int, tuple[tuple[object, ...], list[Strip]]] = {}

    @property
    def tile(self) -> Tile | None:
        """The tile the keys go to."""
        return self.tiles[self.focused_tile] if self.tiles else None

    @property
    def view(self) -> LogView | None:
        """The view the keys go to."""
        return self.tile.view if self.tile else None

    def targets(self) -> list[Target]:
        """What the tiles show."""
        return [tile.target for tile in self.tiles]

    def arrangement(self) -> Arrangement:
        """What the tiles show and how, to see whether a person has changed it."""
        return tuple(
            (
                tile.target,
                tile.stream,
                all(view.follow and not view.filter and not view.query for view in tile.views),
            )
            for tile in self.tiles
        )

    # What the screen calls.

    def open(self, target: Target, *, split: bool = False, stream: Stream | None = None) -> None:
        """Show a log in the focused tile, or in a new one.

        Args:
            target: whose log.
            split: True adds a tile.
            stream: which stream; None: the tile's own.
        """
        if self.tile is None or (split and len(self.tiles) < MOST_TILES):
            place = self.focused_tile + 1 if self.tiles else 0
            self.tiles.insert(place, Tile(target, stream or Stream.OUT, self._logs.path, self._logs))
            self.focused_tile = place
        elif split:
            self.notify(f"At most {MOST_TILES} tiles: close one first (c).", markup=False)
            return
        else:
            self.tile.show(target)
            if stream is not None:
                self.tile.show_stream(stream)
        self.repaint()
        self.refresh_bindings()
        self.post_message(self.TargetsChanged())

    def bring(self, target: Target, stream: Stream) -> None:
        """Show a log in the tile that has its target; where none has, in the tile with the keys."""
        for index, tile in enumerate(self.tiles):
            if tile.target == target:
                self.focused_tile = index
        self.open(target, stream=stream)

    def keep_one(self) -> None:
        """Close all tiles but the one with the keys."""
        for tile in self.tiles:
            if tile is not self.tile:
                tile.close()
                self._pictures.pop(id(tile), None)
        self.tiles = self.tiles[self.focused_tile : self.focused_tile + 1]
        self.focused_tile = 0

    def show_line(self, target: Target, stream: Stream, offset: int) -> None:
        """Show a log at the line that begins at a byte offset."""
        self.bring(target, stream)
        if self.view is not None:
            self.view.show_line(offset)
            self._repaint_tiles()

    def tick(self) -> None:
        """Look for new bytes in all tiles, and repaint those that changed."""
        changed: list[Region] = []
        for index, tile in enumerate(self.tiles):
            tile.look_again()
            for view in tile.views:
                tile.dirty = view.tick() or tile.dirty
            if tile.dirty and index < len(self._regions) and self._regions[index]:
                changed.append(self._regions[index])
        if changed:
            self._strips = None
            self.refresh(*changed)

    def titles_changed(self) -> None:
        """States or nodes in the titles may differ now."""
        self._repaint_tiles(all_tiles=True)

    def set_text(self, ask: Ask, text: str) -> None:
        """Take a filter or search text for the focused tile, as it is typed."""
        tile = self.tile
        if tile is None or ask is Ask.RANKS:
            return
        pattern = Pattern.parse(text, invertible=ask is Ask.FILTER)
        for view in tile.views:
            if ask is Ask.FILTER:
                view.set_filter(pattern)
            else:
                view.set_query(pattern)
        self._repaint_tiles()

    def clear_texts(self) -> bool:
        """Take filter and search of the focused tile away; False if it has none."""
        tile = self.tile
        if tile is None or not any(view.filter or view.query for view in tile.views):
            return False
        for ask in Ask:
            self.set_text(ask, "")
        return True

    def close_all(self) -> None:
        """End all threads."""
        for tile in self.tiles:
            tile.close()

    # Drawing.

    def paint(self, width: int, height: int) -> list[Strip]:
        """All tiles, band by band; unchanged tiles keep their picture."""
        if not self.tiles:
            return []
        self._regions = rectangles(len(self.tiles), width, height)
        if len(self.tiles) > 1 and min(region.height for region in self._regions) < LOWEST:
            self._regions = [Region() for _ in self.tiles]
            self._regions[self.focused_tile] = Region(0, 0, width, height)
            return self._picture(self.focused_tile, self._regions[self.focused_tile], one_of=len(self.tiles))
        pictures = [self._picture(index, region) for index, region in enumerate(self._regions)]
        rows: list[Strip] = []
        for band in band_rows(self._regions):
            rows += [Strip.join(parts) for parts in zip(*(pictures[index] for index in band), strict=True)]
        return rows

    def _picture(self, index: int, region: Region, *, one_of: int = 0) -> list[Strip]:
        tile = self.tiles[index]
        focused = self.has_focus and index == self.focused_tile
        key = (region.size, focused, index == self.focused_tile, len(self.tiles), one_of and index)
        cached = self._pictures.get(id(tile))
        if cached is None or cached[0] != key or tile.dirty:
            alone = len(self.tiles) == 1
            picture = tile_painting.paint(
                tile,
                region.size,
                self.look,
                self._logs.about(tile.target, self.look),
                self._logs.nothing(tile.target),
                focused=focused,
                ended=self._logs.ended,
                chosen=index == self.focused_tile and not alone,
                place=f"{index + 1} of {one_of}" if one_of else "",
            )
            cached = self._pictures[id(tile)] = (key, picture)
            tile.dirty = False
        return cached[1]

    def _repaint_tiles(self, *, all_tiles: bool = False) -> None:
        for index, tile in enumerate(self.tiles):
            if all_tiles or index == self.focused_tile:
                tile.dirty = True
        self.repaint()

    # Keys.

    def action_scroll(self, rows: int) -> None:
        """Move by rows."""
        if self.view:
            self.view.no_hit = ""
            self.view.scroll(rows, self.look)
            self._repaint_tiles()

    def action_page(self, pages: float) -> None:
        """Move by pages."""
        height = self._regions[self.focused_tile].height - 2 if self._regions else 1
        step = max(1, int(abs(pages) * height) - (1 if abs(pages) == 1 else 0))
        self.action_scroll(step if pages > 0 else -step)

    def action_sideways(self, cells: int) -> None:
        """Move left or right."""
        if self.view:
            self.view.scroll_sideways(cells)
            self._repaint_tiles()

    def action_to_start(self) -> None:
        """Show the first line."""
        if self.view:
            self.view.to_start()
            self._repaint_tiles()

    def action_to_end(self) -> None:
        """Follow."""
        if self.view:
            self.view.to_end()
            self._repaint_tiles()

    def action_wrap(self) -> None:
        """Wrap, or cut."""
        if self.tile:
            for view in self.tile.views:
                view.toggle_wrap()
            self._repaint_tiles()

    def action_stream(self) -> None:
        """Next stream."""
        if self.tile:
            self.tile.show_stream(self.tile.stream.next)
            self._repaint_tiles()

    def action_fold(self) -> None:
        """The same lines of many ranks once, or each in the order of time."""
        self._show_fold(Fold.SAME)

    def action_odd(self) -> None:
        """Only what not all ranks said alike, or all."""
        self._show_fold(Fold.ODD)

    def _show_fold(self, fold: Fold) -> None:
        tile = self.tile
        if tile is None or not tile.target.many:
            self.notify("Folding is for the lines of many ranks: m shows them.", markup=False)
            return
        before = Fold.SAME if fold is Fold.ODD else Fold.LINES
        tile.show_fold(before if tile.fold is fold else fold)
        self._repaint_tiles()
        self.refresh_bindings()

    def action_ask(self, ask: str) -> None:
        """Have a text typed."""
        if self.view:
            pattern = self.view.filter if ask == Ask.FILTER else self.view.query
            self.post_message(self.TextWanted(Ask(ask), pattern.typed if pattern else ""))

    def action_search(self, backwards: bool) -> None:
        """Go to the next hit, or ask what to look for."""
        if self.view is None:
            return
        if self.view.query is None:
            self.action_ask(Ask.SEARCH)
            return
        self.view.search(backwards=backwards)
        self._repaint_tiles()

    def action_close_tile(self) -> None:
        """Close the focused tile; the last one stays."""
        if len(self.tiles) > 1:
            tile = self.tiles.pop(self.focused_tile)
            tile.close()
            self._pictures.pop(id(tile), None)
            self.focused_tile = min(self.focused_tile, len(self.tiles) - 1)
            self._repaint_tiles(all_tiles=True)
            self.post_message(self.TargetsChanged())
        else:
            self.notify("This is the last tile: it stays.", markup=False)

    def action_next_tile(self, step: int) -> None:
        """To the next view, and past the last one out of the board."""
        tile = self.tile
        if tile and 0 <= tile.active + step < len(tile.views):
            tile.active += step
            self._repaint_tiles()
        elif 0 <= self.focused_tile + step < len(self.tiles):
            self.focused_tile += step
            entered = self.tiles[self.focused_tile]
            entered.active = 0 if step > 0 else len(entered.views) - 1
            self.repaint()
            self.refresh_bindings()
        else:
            self.post_message(self.Left(step))

    def go_round(self, step: int) -> None:
        """From the last tile to the first, or the other way."""
        self.focused_tile = 0 if step > 0 else max(0, len(self.tiles) - 1)
        self.repaint()
        self.refresh_bindings()

    # Mouse.

    def _tile_at(self, x: int, y: int) -> int | None:
        return next((i for i, region in enumerate(self._regions) if region.contains(x, y)), None)

    def on_click(self, event: Click) -> None:
        """A click goes to that tile."""
        index = self._tile_at(event.x, event.y)
        if index is not None and index != self.focused_tile:
            self.focused_tile = index
            self.repaint()
            self.refresh_bindings()

    def _wheel(self, x: int, y: int, rows: int) -> None:
        index = self._tile_at(x, y)
        if index is not None:
            self.tiles[index].view.scroll(rows, self.look)
            self.tiles[index].dirty = True
            self.repaint()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel scrolls the tile under the mouse."""
        event.stop()
        self._wheel(event.x, event.y, -3)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel scrolls the tile under the mouse."""
        event.stop()
        self._wheel(event.x, event.y, 3)

    def on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        """A sideways wheel."""
        event.stop()
        self.action_sideways(-8)

    def on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        """A sideways wheel."""
        event.stop()
        self.action_sideways(8)
