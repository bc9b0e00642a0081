"""One line at the bottom of a screen in which a filter or a search is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static


class Prompt(Horizontal):
    """Asks for a text. What is typed is told at once; Enter keeps it, Escape takes it back."""

    class Typed(Message):
        """The text as it is now."""

        def __init__(self, purpose: str, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Ended(Message):
        """Enter (kept) or Escape (not kept)."""

        def __init__(self, purpose: str, text: str, kept: bool) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text
            self.kept = kept

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "clear", id="prompt.cancel")]

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self._purpose = ""
        self._back_to: Widget | None = None

    def compose(self) -> ComposeResult:
        """Purpose, text, what the keys do."""
        yield Static(classes="purpose", markup=False)
        yield Input(compact=True, select_on_focus=False)
        yield Static(classes="hint", markup=False)

    def ask(self, purpose: str, text: str, hint: str, *, back_to: Widget | None) -> None:
        """Show the prompt.

        Args:
            purpose: what the text is for, as shown and as told in messages.
            text: what stands there at first.
            hint: what the keys do.
            back_to: gets the focus afterwards.
        """
        self._purpose, self._back_to = purpose, back_to
        self.query_one(".purpose", Static).update(Content(purpose))
        self.query_one(".hint", Static).update(Content(hint))
        field = self.query_one(Input)
        with self.prevent(Input.Changed):
            field.value = text
        field.cursor_position = len(text)
        self.add_class("-shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell what was typed."""
        event.stop()
        self.post_message(self.Typed(self._purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self._end(event.value, kept=True)

    def action_cancel(self) -> None:
        """Escape."""
        self._end("", kept=False)

    def _end(self, text: str, *, kept: bool) -> None:
        self.remove_class("-shown")
        if self._back_to is not None:
            self._back_to.focus()
        self.post_message(self.Ended(self._purpose, text, kept))
