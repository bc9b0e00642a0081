"""A pane of lines that can be scrolled: plan preview, events, help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import MouseScrollDown, MouseScrollUp
from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Parts
from rankdeck_tui.widgets.painted import Pane


class Lines(Pane, can_focus=True):
    """Lines of parts, cut at the right border, scrolled as a whole."""

    PANE = "text panes"
    """What help calls it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", "Up", show=False, id="lines.up"),
        Binding("down,j", "scroll_by(1)", "Down", show=False, id="lines.down"),
        Binding("pageup,b", "scroll_page(-1)", "Page up", show=False, id="lines.page_up"),
        Binding("pagedown,space", "scroll_page(1)", "Page down", show=False, id="lines.page_down"),
        Binding("home,g", "scroll_to_row(0)", "Top", show=False, id="lines.first"),
        Binding("end,G", "scroll_to_row(1000000)", "Bottom", show=False, id="lines.last"),
    ]

    def __init__(self, title: str = "", *, stick: bool = False, id: str | None = None) -> None:
        """Make a pane.

        Args:
            title: what the border says.
            stick: True keeps the last line in view while new ones come, until the person scrolls up.
            id: Textual's id.
        """
        super().__init__(id=id)
        self.title = title
        self.note: Parts = ()
        self.lines: tuple[Parts, ...] = ()
        self._stick = stick
        self._at_end = stick
        self._top = 0

    def set_lines(
        self, lines: Sequence[Parts], *, title: str | None = None, note: Parts | None = None
    ) -> None:
        """Show these lines; repaints only if something differs."""
        new = tuple(tuple(parts) for parts in lines)
        title = self.title if title is None else title
        note = self.note if note is None else tuple(note)
        if (new, title, note) == (self.lines, self.title, self.note):
            return
        self.lines, self.title, self.note = new, title, note
        self.repaint()

    def to_top(self) -> None:
        """Show the first line."""
        self._top, self._at_end = 0, False

    def title_parts(self) -> Parts:
        """The title."""
        return [(self.title, self.title_style())] if self.title else []

    def aside_parts(self) -> Parts:
        """The owner's note."""
        return self.note

    def thumb(self, height: int) -> tuple[int, int] | None:
        """By lines."""
        return draw.thumb_of(self._top, height, len(self.lines), height)

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view."""
        ink = self.look.ink
        last = max(0, len(self.lines) - height)
        self._top = last if self._at_end else max(0, min(self._top, last))
        ellipsis = self.look.glyphs.ellipsis
        shown = self.lines[self._top : self._top + height]
        blank = (" ", ink.text)
        return [draw.line([blank, *parts], width, ink.text, ellipsis=ellipsis) for parts in shown]

    def _scroll(self, top: int) -> None:
        last = max(0, len(self.lines) - max(1, self.size.height - 2))
        self._top = max(0, min(top, last))
        self._at_end = self._stick and self._top == last
        self.repaint()

    def action_scroll_by(self, rows: int) -> None:
        """Scroll by rows."""
        self._scroll(self._top + rows)

    def action_scroll_page(self, pages: int) -> None:
        """Scroll by pages."""
        self._scroll(self._top + pages * max(1, self.size.height - 3))

    def action_scroll_to_row(self, row: int) -> None:
        """Scroll to a row."""
        self._scroll(row)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel scrolls."""
        event.stop()
        self._scroll(self._top + 3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel scrolls."""
        event.stop()
        self._scroll(self._top - 3)
