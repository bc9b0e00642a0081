"""A field whose value is one of a few names: left and right go through them, enter lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part
from rankdeck_tui.widgets.painted import Painted


class Choice(Painted, can_focus=True):
    """One of several values."""

    PANE = "choices"
    """What help calls it."""

    class Changed(Message):
        """Another value."""

        def __init__(self, choice: Choice, value: str) -> None:
            super().__init__()
            self.choice = choice
            self.value = value

        @property
        def control(self) -> Choice:
            """The field (for `@on` selectors)."""
            return self.choice

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "previous", id="choice.previous"),
        Binding("right,l", "step(1)", "next", id="choice.next"),
        Binding("enter,space", "pick", "list", id="choice.pick"),
    ]

    def __init__(
        self, values: Sequence[str], value: str, *, label: Callable[[str], str] = str, id: str | None = None
    ) -> None:
        """Make a field.

        Args:
            values: what may be chosen.
            value: what is chosen at first.
            label: how a value is shown.
            id: Textual's id.
        """
        super().__init__(id=id)
        self.values = list(values)
        self.value = value
        self._label = label

    def set(self, values: Sequence[str], value: str) -> None:
        """Other values, without a message."""
        self.values, self.value = list(values), value
        self.repaint()

    def paint(self, width: int, height: int) -> list[Strip]:
        """The value between arrows."""
        look = self.look
        ink = look.ink
        arrow = ink.accent if self.has_focus else ink.faint
        value = ink.strong if self.has_focus else ink.text
        parts: list[Part] = [(look.glyphs.left + " ", arrow), (self._label(self.value), value)]
        parts.append((" " + look.glyphs.right, arrow))
        return [draw.line(parts, width, ink.text, ellipsis=look.glyphs.ellipsis)]

    def _take(self, value: str) -> None:
        if value != self.value:
            self.value = value
            self.repaint()
            self.post_message(self.Changed(self, value))

    def action_step(self, by: int) -> None:
        """The previous or next value."""
        if self.values:
            at = self.values.index(self.value) if self.value in self.values else 0
            self._take(self.values[(at + by) % len(self.values)])

    def action_pick(self) -> None:
        """List the values."""
        from rankdeck_tui.screens.pick import PickScreen

        def picked(value: str | None) -> None:
            if value is not None:
                self._take(value)

        rows = [(value, self._label(value), "") for value in self.values]
        self.app.push_screen(PickScreen("Choose", rows, self.value), picked)

    def on_click(self, event: Click) -> None:
        """A click lists them."""
        self.action_pick()
