"""The form for a pool: on which nodes things run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from textual.widget import Widget
from textual.widgets import Input

from rankdeck_profiles import edit
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.library import POOLS
from rankdeck_profiles.model import BackendKind
from rankdeck_tui.composing import FieldError
from rankdeck_tui.screens.forms import SaveForm
from rankdeck_tui.widgets.choice import Choice

_HELP = {
    "name": "The file's name, by which profiles and --pool call it.",
    "backend": "ssh: other machines, by your own ssh settings; openssh: by the ssh program itself. "
    "local: this machine, as one node or several.",
    "nodes": "Names, addresses or ~/.ssh/config aliases, with ranges; user@ before, :port after if needed.",
    "slots": "How many ranks a node takes. Empty: the number of its GPUs, else 1.",
    "interface": "The network for rendezvous and data. Empty: the one that holds the node's address.",
}


class PoolForm(SaveForm):
    """A pool: where to run."""

    KIND = POOLS
    NOUN = "pool"

    def on_mount(self) -> None:
        """Fill in what the file says."""
        if self._edited is None:
            self.query_one("#name").focus()
            return
        try:
            pool = self._library.pool(self._edited)
        except RankdeckError as error:
            self._tell(error)
            return
        if pool.source is None:
            self._tell(
                FieldError(
                    "", "this machine is a pool without a file", "make a new pool to change something (n)"
                )
            )
            return
        self.query_one("#backend", Choice).set([str(kind) for kind in BackendKind], str(pool.backend))
        entries = [
            (f"{node.user}@" if node.user else "") + node.host + (f":{node.port}" if node.port else "")
            for node in pool.nodes
        ]
        self.query_one("#nodes", Input).value = " ".join(entries)
        self.query_one("#slots", Input).value = str(pool.slots or "")
        self.query_one("#interface", Input).value = pool.interface or ""
        self.query_one("#backend").focus()

    def fields(self) -> Iterator[tuple[str, str, Widget]]:
        """All a pool has, but for host files."""
        kinds = [str(kind) for kind in (BackendKind.SSH, BackendKind.OPENSSH, BackendKind.LOCAL)]
        yield "backend", "Backend", Choice(kinds, kinds[0], id="backend")
        yield "nodes", "Nodes", Input(placeholder="gpu[001-004] alice@gpu007:2222", compact=True, id="nodes")
        yield (
            "slots",
            "Slots",
            Input(placeholder="the number of GPUs found, else 1", compact=True, id="slots"),
        )
        yield (
            "interface",
            "Interface",
            Input(placeholder="found by itself; ib0 overrides", compact=True, id="interface"),
        )

    def values(self) -> dict[str, Any]:
        """The keys of the file."""
        return {
            "backend": self.chosen("backend"),
            "nodes": _entries(self.text("nodes")) or None,
            "slots": self.count("slots", "Slots"),
            "interface": self.text("interface") or None,
        }

    def help_of(self, key: str) -> str:
        """What a field is for."""
        return _HELP.get(key, "")

    def write(self, path: Path, values: Mapping[str, Any]) -> None:
        """Change the file."""
        edit.write_pool(path, values)

    def create(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write the new file."""
        edit.new_pool(path, values)


def _entries(text: str) -> list[str]:
    """Entries between blanks or commas; commas inside brackets belong to a range."""
    entries: list[str] = []
    current, depth = "", 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if (character in ", \t") and depth <= 0:
            if current:
                entries.append(current)
            current = ""
        else:
            current += character
    return [*entries, current] if current else entries
