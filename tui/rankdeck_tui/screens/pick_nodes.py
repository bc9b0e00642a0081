"""Some nodes of a pool, picked by typing a part of their names and marking them."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from rankdeck_profiles import ranges
from rankdeck_profiles.model import Pool
from rankdeck_profiles.nodes import is_host
from rankdeck_tui import words
from rankdeck_tui.screens.pick import PickScreen
from rankdeck_tui.widgets.table import Table


class PickNodes(PickScreen):
    """Gives nodes as the composer's field takes them: `n[1-2],n7`; empty: all; None: nothing was picked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "mark", "mark", tooltip="Mark this node", priority=True, id="nodes.mark"),
        Binding(
            "ctrl+a",
            "mark_shown",
            "mark all",
            tooltip="Mark all that are shown",
            priority=True,
            id="nodes.all",
        ),
    ]

    def __init__(self, pool: Pool) -> None:
        """Make the list of a pool's nodes."""
        entries = [(node.name, node.name, f"slots {words.slots_of(node, pool)}") for node in pool.nodes]
        super().__init__(f"Nodes of {pool.name}: tab marks, ^a marks all shown, enter takes", entries)
        self._marked: set[str] = set()

    def shown(self, key: str, name: str) -> str:
        """The name with its mark."""
        return f"{'*' if key in self._marked else ' '} {name}"

    # A key that was typed just before may still wait in the field's queue: marks wait behind it, so that only
    # what the person has narrowed to is marked.

    def action_mark(self) -> None:
        """Mark the node under the cursor, or take its mark away; the cursor goes on."""
        self.query_one(Input).call_later(self._mark)

    def action_mark_shown(self) -> None:
        """Mark every node that is shown; once more takes the marks away."""
        self.query_one(Input).call_later(self._mark_shown)

    def _mark(self) -> None:
        self.refresh_rows()
        table = self.query_one(Table)
        if table.cursor_key is not None:
            self._marked ^= {table.cursor_key}
            self.refresh_rows()
            table.action_move(1)

    def _mark_shown(self) -> None:
        self.refresh_rows()
        names = {row.key for row in self.query_one(Table).rows}
        self._marked = self._marked - names if names <= self._marked else self._marked | names
        self.refresh_rows()

    def result(self) -> str | None:
        """The marked nodes in the pool's order; without marks the one under the cursor."""
        marked = [key for key, _, _ in self.entries if key in self._marked]
        if len(marked) == len(self.entries):
            return ""
        if not marked:
            return self.query_one(Table).cursor_key
        return ",".join(ranges.fold(marked) if all(map(is_host, marked)) else marked)
