"""One line of a form: a label, something to fill in, and below it a remark and what is wrong with it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rankdeck_tui.look.draw import cleaned


class Field(Vertical):
    """A labelled field with room for a remark and an error."""

    DEFAULT_CSS = "Field { height: auto; width: 1fr; }"

    def __init__(self, key: str, label: str, widget: Widget) -> None:
        """Make a field.

        Args:
            key: the profile's or pool's key that it stands for.
            label: what people read.
            widget: what is filled in.
        """
        super().__init__()
        self.key = key
        self._label = label
        self._widget = widget
        self._error = ""
        self._note = ""

    def compose(self) -> ComposeResult:
        """Label and widget beside each other; remark and error below."""
        with Horizontal(classes="field"):
            yield Static(Content(self._label), classes="label", markup=False)
            yield self._widget
        yield Static(classes="field-note", markup=False)
        yield Static(classes="field-error", markup=False)

    def show_note(self, text: str) -> None:
        """Remark on what was filled in; empty: nothing."""
        text = "\n".join(cleaned(line) for line in text.splitlines())
        if text == self._note:
            return
        self._note = text
        label = self.query_one(".field-note", Static)
        label.update(Content(text))
        label.set_class(bool(text), "-shown")

    def show_error(self, message: str, hint: str = "") -> None:
        """Say what is wrong; empty: nothing is."""
        text = "\n".join(cleaned(line) for part in (message, hint) if part for line in part.splitlines())
        if text == self._error:
            return
        self._error = text
        label = self.query_one(".field-error", Static)
        label.update(Content(text))
        label.set_class(bool(text), "-shown")
