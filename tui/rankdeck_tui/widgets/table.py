"""A list with columns, a cursor and its own scrolling: runs, profiles, pools, choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets.painted import Pane

LOWEST_HEADED = 4
"""Rows, border included, up to which a list has no heading: its rows matter more."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: its heading.
        width: cells it needs.
        grow: its share of the cells that are left over; 0: stays at `width`.
        rank: columns with the highest rank go first where there is no room; 0 always stays.
        right: True aligns to the right.
    """

    name: str
    width: int
    grow: int = 0
    rank: int = 0
    right: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a key that stays the same while the row changes, and one tuple of parts for each column."""

    key: str
    cells: tuple[Parts, ...]


class Table(Pane, can_focus=True):
    """A list with a cursor. The owner sets rows; the table keeps the cursor on its key."""

    PANE = "lists"
    """What help calls it."""

    class Chosen(Message):
        """Enter or a double click on a row."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            """The table (for `@on` selectors)."""
            return self.table

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            """The table (for `@on` selectors)."""
            return self.table

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page_down"),
        Binding("home,g", "first", "Top", show=False, id="table.first"),
        Binding("end,G", "last", "Bottom", show=False, id="table.last"),
    ]

    def __init__(
        self, title: str, columns: Sequence[Column], *, headed: bool = True, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.title = title
        self.columns = tuple(columns)
        self.headed = headed
        self.rows: tuple[Row, ...] = ()
        self.empty: tuple[Parts, ...] = ()
        """What is shown where there are no rows."""
        self.note: Parts = ()
        """Shown at the right of the title."""
        self.count: str | None = None
        """Shown after the title instead of the number of rows."""
        self._cursor = 0
        self._top = 0

    @property
    def cursor_key(self) -> str | None:
        """The key of the row the cursor is on."""
        return self.rows[self._cursor].key if self.rows else None

    def set_rows(self, rows: Sequence[Row], *, empty: Sequence[Parts] = ()) -> None:
        """Show these rows; repaints only if something differs. The cursor stays on its row's key."""
        new, new_empty = tuple(rows), tuple(tuple(parts) for parts in empty)
        if new == self.rows and new_empty == self.empty:
            return
        key = self.cursor_key
        self.rows, self.empty = new, new_empty
        found = next((i for i, row in enumerate(new) if row.key == key), None)
        self._cursor = found if found is not None else max(0, min(self._cursor, len(new) - 1))
        self.repaint()

    def select(self, key: str) -> bool:
        """Put the cursor on the row with this key; False if there is none."""
        for index, row in enumerate(self.rows):
            if row.key == key:
                self._go(index)
                return True
        return False

    def title_parts(self) -> Parts:
        """Title and number of rows."""
        count = self.count if self.count is not None else str(len(self.rows))
        parts: list[Part] = [(self.title, self.title_style())]
        return [*parts, (f" {count}", self.look.ink.dim)] if count else parts

    def aside_parts(self) -> Parts:
        """The owner's note."""
        return self.note

    def thumb(self, height: int) -> tuple[int, int] | None:
        """By rows."""
        shown = max(1, height - self._heading_rows)
        return draw.thumb_of(self._top, shown, len(self.rows), height)

    def body(self, width: int, height: int) -> list[Strip]:
        """Heading and the rows in view."""
        ink = self.look.ink
        if not self.rows:
            return [draw.line([("  ", ink.text), *parts], width, ink.text) for parts in self.empty]
        shown = max(1, height - self._heading_rows)
        self._top = max(0, min(self._top, self._cursor, len(self.rows) - shown))
        self._top = max(self._top, self._cursor - shown + 1)
        widths = self._widths(width - 3)
        strips = [self._heading(widths, width)] if self._heading_rows else []
        last = min(self._top + shown, len(self.rows))
        return strips + [self._row(index, widths, width) for index in range(self._top, last)]

    @property
    def _heading_rows(self) -> int:
        return 1 if self.headed and self.size.height > LOWEST_HEADED else 0

    def _widths(self, room: int) -> list[int | None]:
        """The width of each column; None: not shown."""
        kept = list(self.columns)
        while len(kept) > 1 and sum(c.width + 2 for c in kept) - 2 > room:
            worst = max(kept, key=lambda c: c.rank)
            if worst.rank == 0:
                break
            kept.remove(worst)
        spare = max(0, room - (sum(c.width + 2 for c in kept) - 2))
        shares = sum(c.grow for c in kept) or 1
        return [c.width + spare * c.grow // shares if c in kept else None for c in self.columns]

    def _heading(self, widths: Sequence[int | None], width: int) -> Strip:
        ink = self.look.ink
        parts: list[Part] = [("  ", ink.dim)]
        for column, cells in zip(self.columns, widths, strict=True):
            if cells is not None:
                parts.append((draw.pad(column.name, cells, right=column.right) + "  ", ink.dim))
        return draw.line(parts, width, ink.text, ellipsis="")

    def _row(self, index: int, widths: Sequence[int | None], width: int) -> Strip:
        look = self.look
        ink = look.ink
        chosen = index == self._cursor
        mark = look.glyphs.cursor if chosen and self.has_focus else " "
        segments = [Segment(mark, ink.accent), Segment(" ", ink.text)]
        left = width - 2
        for cells, parts, column in zip(widths, self.rows[index].cells, self.columns, strict=True):
            if cells is None or left <= 0:
                continue
            cells = min(cells, left)
            strip = draw.line(parts, cells, ink.text, ellipsis=look.glyphs.ellipsis)
            if column.right:
                blank = max(0, cells - draw.measure(parts))
                strip = draw.line(
                    [(" " * blank, ink.text), *parts], cells, ink.text, ellipsis=look.glyphs.ellipsis
                )
            segments += strip
            left -= cells
            gap = min(2, left)
            segments.append(Segment(" " * gap, ink.text))
            left -= gap
        if left > 0:
            segments.append(Segment(" " * left, ink.text))
        if not chosen:
            return Strip(segments, width)
        ground = ink.cursor if self.has_focus else ink.idle_cursor
        painted = [Segment(s.text, ink.over(s.style, ground) if s.style else ground) for s in segments]
        return Strip(painted, width)

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self.rows) - 1))
        if index != self._cursor and self.rows:
            self._cursor = index
            self.repaint()
            self.post_message(self.Moved(self, self.rows[index].key))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self._go(self._cursor + by * max(1, self.size.height - 3))

    def action_first(self) -> None:
        """To the first row."""
        self._go(0)

    def action_last(self) -> None:
        """To the last row."""
        self._go(len(self.rows) - 1)

    def action_choose(self) -> None:
        """Say that the row under the cursor was chosen."""
        if self.rows:
            self.post_message(self.Chosen(self, self.rows[self._cursor].key))

    def on_click(self, event: Click) -> None:
        """A click puts the cursor there, a double click chooses."""
        index = self._top + event.y - 1 - self._heading_rows
        if 0 <= index < len(self.rows) and event.y >= 1 + self._heading_rows:
            self._go(index)
            if event.chain == 2:
                self.action_choose()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self._go(self._cursor + 3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self._go(self._cursor - 3)
