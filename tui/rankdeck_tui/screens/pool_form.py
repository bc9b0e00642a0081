"""The form for a pool: on which nodes things run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.events import DescendantBlur, Resize
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from rankdeck_profiles import edit, source
from rankdeck_profiles.errors import PoolError, RankdeckError
from rankdeck_profiles.hostfiles import HostfileError
from rankdeck_profiles.hostfiles.keys import pool_keys
from rankdeck_profiles.library import POOLS
from rankdeck_profiles.model import BackendKind
from rankdeck_tui.composing import FieldError
from rankdeck_tui.look import Look
from rankdeck_tui.screens.forms import AROUND, AROUND_LOW, LOW, SaveForm
from rankdeck_tui.understanding import Understood, entries_of_text, in_short, understand
from rankdeck_tui.widgets.choice import Choice
from rankdeck_tui.widgets.field import Field
from rankdeck_tui.widgets.node_list import COLUMNS, NodeList, NodesInput

_FIELDS = 5
_REMARKS = 5
"""Rows that remarks on a host file may take."""
_TALL = 30
"""Rows of a screen that has room for all remarks."""
_HIGHEST = 14
"""Rows of the list of nodes where there is room for more."""

_HELP = {
    "name": "The file's name, by which profiles and --pool call it.",
    "backend": "ssh: other machines, by your own ssh settings; openssh: by the ssh program itself. "
    "local: this machine, as one node or several.",
    "nodes": "Names, addresses or ~/.ssh/config aliases, with ranges; user@ before, :port after, slots=4 "
    "behind if needed. A host file's text can be pasted.",
    "hostfile": "A file with the nodes, of Open MPI, DeepSpeed, MPICH, PBS, LSF, Grid Engine or Slurm; "
    "it is read again whenever the pool is used.",
    "slots": "How many ranks a node takes. Empty: the number of its GPUs, else 1.",
    "interface": "The network for rendezvous and data. Empty: the one that holds the node's address.",
}


class PoolForm(SaveForm):
    """A pool: where to run."""

    KIND = POOLS
    NOUN = "pool"
    EXAMPLE = "gpu-cluster"

    class Looked(Message):
        """The fields were understood (in a thread)."""

        def __init__(self, asked: tuple[str, str, str], understood: Understood) -> None:
            super().__init__()
            self.asked = asked
            self.understood = understood

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self._understood = Understood()
        self._refused = ("", "")
        """What is wrong in a text that was pasted and not taken."""

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
        # As written: a host file's nodes are its own, and include and exclude leave some out.
        written = source.read(pool.source, PoolError)
        self.query_one("#nodes", Input).value = " ".join(written.value(("nodes",)) or [])
        self.query_one("#hostfile", Input).value = written.value(("hostfile",)) or ""
        self.query_one("#slots", Input).value = str(written.value(("slots",)) or "")
        self.query_one("#interface", Input).value = pool.interface or ""
        self.query_one("#backend").focus()

    def fields(self) -> Iterator[tuple[str, str, Widget]]:
        """What most pools have; include and exclude are for the editor."""
        kinds = [str(kind) for kind in (BackendKind.SSH, BackendKind.OPENSSH, BackendKind.LOCAL)]
        yield "backend", "Backend", Choice(kinds, kinds[0], id="backend")
        yield (
            "nodes",
            "Nodes",
            NodesInput(placeholder="gpu[001-004] alice@gpu007:2222", compact=True, id="nodes"),
        )
        yield "hostfile", "Host file", Input(placeholder="~/hostfile", compact=True, id="hostfile")
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
            "nodes": entries_of_text(self.text("nodes")) or None,
            "hostfile": self._hostfile() or None,
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

    def more(self) -> ComposeResult:
        """The nodes, as understood."""
        yield NodeList("Understood", COLUMNS, id="understood")

    def on_resize(self, event: Resize) -> None:
        """The list of nodes gets what the fields leave."""
        super().on_resize(event)
        low = event.size.height < LOW
        room = event.size.height - (AROUND_LOW if low else AROUND)
        fields = _FIELDS + (self._edited is None)
        self.query_one(".dialog-fields").styles.max_height = max(3, room)
        self.query_one(NodeList).styles.height = max(4, min(_HIGHEST, room - fields - _REMARKS))
        self._tell_wrong()

    def _hostfile(self) -> str:
        """The path as it is saved: ~ stays, else it is made whole, for the pool's file lies elsewhere."""
        text = self.text("hostfile")
        if not text or text.startswith("~"):
            return text
        return str(self._folder / text)

    @property
    def _folder(self) -> Path:
        """Where a relative path begins: for a saved pool its own folder, as in its file."""
        return self._library.path(POOLS, self._edited).parent if self._edited else self._library.start_dir

    # What the fields stand for, understood in a thread: a host file may lie on a slow file server.

    @on(Input.Changed, "#nodes, #hostfile, #slots")
    def _typed(self, event: Input.Changed) -> None:
        if event.input.id in ("nodes", "hostfile"):  # where other nodes come from, the old refusal is over
            self._refused = ("", "")
        self._look(self._asked(), self._folder)

    def _asked(self) -> tuple[str, str, str]:
        return self.text("nodes"), self.text("hostfile"), self.text("slots")

    @work(thread=True, exclusive=True, group="understand", exit_on_error=False)
    def _look(self, asked: tuple[str, str, str], folder: Path) -> None:
        nodes, hostfile, slots = asked
        count = int(slots) if slots.isascii() and slots.isdigit() else None
        self.post_message(self.Looked(asked, understand(nodes, hostfile, count, folder)))

    @on(Looked)
    def _show_understood(self, message: Looked) -> None:
        if message.asked != self._asked():
            return  # typed on meanwhile
        look = getattr(self.app, "look", None)
        assert isinstance(look, Look)
        self._understood = message.understood
        self.query_one(NodeList).show(message.understood, look)
        self._tell_wrong()

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """What is left half typed is wrong now."""
        self.call_later(self._tell_wrong)

    def _tell_wrong(self) -> None:
        """What is wrong in the fields; of the one being typed in only what more typing will not mend."""
        fields = {field.key: field for field in self.query(Field)}
        focused = self.focused.id if self.focused is not None else None
        for key in ("nodes", "hostfile"):
            wrong = next((each for each in self._understood.wrong if each[0] == key), ("", "", ""))
            if key == "nodes" and self._refused[0]:
                wrong = (key, *self._refused)
            was_read = key == "hostfile" and bool(self._understood.remarks)
            if focused != key or was_read or not wrong[1] or self._refused[0]:
                fields[key].show_error(wrong[1], wrong[2])
        fields["hostfile"].show_note(self._remarks(self._understood.remarks))

    def _remarks(self, remarks: Sequence[str]) -> str:
        return "\n".join(remarks) if self.size.height >= _TALL else in_short(remarks)

    @on(NodesInput.Pasted)
    def _take_pasted(self, message: NodesInput.Pasted) -> None:
        """Fill in what a pasted host file says."""
        field = next(field for field in self.query(Field) if field.key == "nodes")
        try:
            keys = pool_keys(message.found.checked())
        except HostfileError as error:
            self._refused = (error.message, error.hint)
            self._tell_wrong()
            return
        self.query_one("#nodes", Input).value = " ".join(keys["nodes"])
        if "slots" in keys:
            self.query_one("#slots", Input).value = str(keys["slots"])
        found = message.found
        remarks = (f"pasted, read as {found.format}: {found.why}", *map(str, found.notes[:3]))
        field.show_note(self._remarks(remarks))
