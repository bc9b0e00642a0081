"""All keys of a screen, read from the bindings that act: it can't say anything that isn't so."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen

from rankdeck_tui.look import Look, draw
from rankdeck_tui.look.draw import Parts
from rankdeck_tui.screens.actions import Action, actions_of
from rankdeck_tui.widgets.lines import Lines


class HelpScreen(ModalScreen[None]):
    """The keys, pane by pane."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "close", "back", id="help.close")
    ]

    def __init__(self, screen: Screen[object]) -> None:
        """Make the list for this screen."""
        super().__init__()
        self._actions = list(actions_of(screen))

    def compose(self) -> ComposeResult:
        """One pane of lines."""
        with Vertical(classes="dialog -wide -tall -bare"):
            yield Lines("Keys", id="help")

    def on_mount(self) -> None:
        """Fill it."""
        look = getattr(self.app, "look", None)
        assert isinstance(look, Look)
        pane = self.query_one(Lines)
        pane.styles.height = "1fr"
        pane.set_lines(help_lines(self._actions, look), note=[("esc closes", look.ink.dim)])
        pane.focus()

    def action_close(self) -> None:
        """Back to the screen."""
        self.dismiss(None)


def help_lines(actions: list[Action], look: Look) -> list[Parts]:
    """The actions as lines, pane by pane."""
    ink = look.ink
    lines: list[Parts] = []
    pane: str | None = None
    # Within a pane, keys that need explaining come first, plain movement last (the sort is stable).
    order = {entry.pane: index for index, entry in reversed(list(enumerate(actions)))}
    for entry in sorted(actions, key=lambda entry: (order[entry.pane], entry.about == entry.name)):
        if entry.pane != pane:
            pane = entry.pane
            if lines:
                lines.append([("", ink.text)])
            lines.append([((pane or "everywhere on this screen").capitalize(), ink.strong)])
        lines.append([("  ", ink.text), (draw.pad(entry.keys, 22), ink.key), (entry.about, ink.text)])
    return lines
