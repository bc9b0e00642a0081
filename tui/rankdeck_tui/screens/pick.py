"""A list to pick from by typing a part of the name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from rankdeck_tui.look import Look
from rankdeck_tui.widgets.table import Column, Row, Table


class PickScreen(ModalScreen[str | None]):
    """Pick one of several things; gives its key, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "back", id="pick.cancel"),
        Binding("up", "move(-1)", "Up", show=False, priority=True, id="pick.up"),
        Binding("down", "move(1)", "Down", show=False, priority=True, id="pick.down"),
    ]

    def __init__(self, title: str, entries: Sequence[tuple[str, str, str]], chosen: str = "") -> None:
        """Make the list.

        Args:
            title: what is picked.
            entries: (key, name, what is said at the right) of each.
            chosen: the key the cursor is on at first.
        """
        super().__init__()
        self._title = title
        self.entries = list(entries)
        """(key, name, what is said at the right) of each."""
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        """A field and the list."""
        with Vertical(classes="dialog -bare -wide"):
            yield Input(placeholder="type to narrow, enter takes it", compact=True)
            asides = max((len(aside) for _, _, aside in self.entries), default=0)
            columns = [Column("Name", 20, grow=1)]
            if asides:
                columns.append(Column("", asides, right=True))
            yield Table(self._title, columns, headed=False, id="entries")

    def on_mount(self) -> None:
        """The field has the focus; arrows move in the list."""
        table = self.query_one(Table)
        table.styles.height = min(len(self.entries) + 2, max(6, self.app.size.height - 6))
        table.can_focus = False
        self._narrow("")
        table.select(self._chosen)
        self.query_one(Input).focus()

    def _narrow(self, text: str) -> None:
        look = getattr(self.app, "look", None)
        assert isinstance(look, Look)
        ink = look.ink
        needle = text.casefold()
        rows = [
            Row(
                key,
                ([(self.shown(key, name), ink.text)], [(aside, ink.key)])[
                    : len(self.query_one(Table).columns)
                ],
            )
            for key, name, aside in sorted(self.entries, key=lambda entry: _distance(needle, entry[0]))
            if all(word in f"{name} {aside}".casefold() for word in needle.split())
        ]
        self.query_one(Table).set_rows(rows, empty=[[("Nothing has that name.", ink.dim)]])

    def shown(self, key: str, name: str) -> str:
        """An entry's name as it is shown."""
        return name

    def refresh_rows(self) -> None:
        """Show the entries again, as narrowed now."""
        self._narrow(self.query_one(Input).value)

    def result(self) -> str | None:
        """What Enter gives."""
        return self.query_one(Table).cursor_key

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)
        if event.value:
            self.query_one(Table).action_first()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.dismiss(self.result())

    @on(Table.Chosen)
    def _clicked(self, message: Table.Chosen) -> None:
        self.dismiss(message.key)

    def action_move(self, by: int) -> None:
        """Move in the list."""
        self.query_one(Table).action_move(by)

    def action_cancel(self) -> None:
        """Pick nothing."""
        self.dismiss(None)


def _distance(needle: str, key: str) -> int:
    """An entry of that very name comes first, then those whose names begin so."""
    name = key.casefold()
    return 0 if not needle or name == needle else 1 if name.startswith(needle) else 2
