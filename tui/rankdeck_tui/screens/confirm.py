"""A question with two answers. Cancel has the focus, so a stray Enter changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from rankdeck_tui.look.draw import cleaned


class ConfirmScreen(ModalScreen[bool]):
    """Ask before something that can't be taken back; gives True only if the person chose it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "answer(False)", "Cancel", id="confirm.cancel"),
        Binding("y", "answer(True)", "Yes", show=False, id="confirm.yes"),
        Binding("left,right,h,l", "other", "Other answer", show=False, id="confirm.other"),
    ]

    def __init__(self, title: str, lines: Sequence[str], yes: str, *, danger: bool = True) -> None:
        """Make the question.

        Args:
            title: what is asked.
            lines: what the person should know before answering (foreign text is cleaned here).
            yes: the button that does it.
            danger: True paints that button as a danger.
        """
        super().__init__()
        self._title = title
        self._lines = [cleaned(line) for text in lines for line in text.split("\n")]
        self._yes = yes
        self._danger = danger

    def compose(self) -> ComposeResult:
        """The question, what to know, two buttons."""
        with Vertical(classes="dialog"):
            yield Static(Content(cleaned(self._title)), classes="dialog-title", markup=False)
            yield Static(Content("\n".join(self._lines)), classes="dialog-text", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Cancel (n)"), id="cancel", compact=True)
                yield Button(
                    Content(f"{self._yes} (y)"),
                    id="yes",
                    compact=True,
                    variant="error" if self._danger else "primary",
                )

    def on_mount(self) -> None:
        """Cancel is what Enter means."""
        self.query_one("#cancel").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button was pressed."""
        event.stop()
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """Close with this answer."""
        self.dismiss(answer)

    def action_other(self) -> None:
        """Move to the other button."""
        self.focus_next()
