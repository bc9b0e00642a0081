"""The nodes that a form stands for, as they were understood."""

from __future__ import annotations

import itertools

from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from rankdeck_profiles.hostfiles import Hostfile
from rankdeck_tui.look import Look
from rankdeck_tui.understanding import Understood, pasted
from rankdeck_tui.widgets.table import Column, Row, Table

COLUMNS = (
    Column("Node", 16, grow=2),
    Column("Login, GPUs", 14, grow=1, rank=1),
    Column("Slots", 5, right=True),
    Column("From", 9, rank=2),
)


class NodeList(Table, can_focus=False):
    """Shows nodes; the wheel scrolls."""

    def show(self, understood: Understood, look: Look) -> None:
        """Show what was understood."""
        ink = look.ink
        self.count = understood.total or "none yet"
        told = (
            True,
            any(place.login for place in understood.places),
            True,
            any(place.origin for place in understood.places),
        )
        self.columns = tuple(itertools.compress(COLUMNS, told))
        inks = (ink.text, ink.dim, ink.text, ink.dim)
        self.set_rows(
            [
                Row(
                    place.name,
                    tuple(
                        [(text, style)]
                        for text, style in itertools.compress(zip(cells, inks, strict=True), told)
                    ),
                )
                for place in understood.places
                for cells in ((place.name, place.login, place.slots, place.origin),)
            ],
            empty=[[("Names, a host file's path, or a host file pasted into Nodes.", ink.dim)]],
        )
        self.repaint()


class NodesInput(Input):
    """A field for nodes that takes a whole host file when one is pasted."""

    class Pasted(Message):
        """A host file was pasted."""

        def __init__(self, found: Hostfile) -> None:
            super().__init__()
            self.found = found

    def on_paste(self, event: Paste) -> None:
        """Understand what is pasted, where it is more than names; Textual's own field takes one line."""
        found = pasted(event.text)
        if found is None:
            return
        event.prevent_default()
        event.stop()
        self.post_message(self.Pasted(found))
