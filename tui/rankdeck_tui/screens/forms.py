"""Forms for a profile and a pool. Files say more than forms can; what a form does not show stays as it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from rankdeck_profiles import edit, frameworks, pools
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.library import POOLS, PROFILES, Library
from rankdeck_profiles.model import BackendKind
from rankdeck_tui.composing import FieldError, variables_of, words_of
from rankdeck_tui.look.draw import cleaned
from rankdeck_tui.widgets.choice import Choice
from rankdeck_tui.widgets.field import Field


class SaveForm(ModalScreen[str | None]):
    """A form that saves one TOML file; gives the saved name, or None."""

    KIND = PROFILES
    NOUN = "profile"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "back", id="form.cancel"),
        Binding("ctrl+s", "save", "save", tooltip="Save the file", id="form.save"),
        Binding("down", "app.focus_next", "Next field", show=False, id="form.next"),
        Binding("up", "app.focus_previous", "Previous field", show=False, id="form.previous"),
    ]

    def __init__(self, name: str | None) -> None:
        """Make the form.

        Args:
            name: the saved file to change; None: a new one.
        """
        super().__init__()
        self._edited = name

    @property
    def _library(self) -> Library:
        library = getattr(self.app, "library", None)
        assert isinstance(library, Library)
        return library

    def fields(self) -> Iterator[tuple[str, str, Widget]]:
        """Key, label and widget of each field but the name's."""
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """What the file is to say: dotted keys; None takes a key away.

        Raises:
            FieldError: a field can't be read.
        """
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Name, fields, what is wrong, two buttons."""
        title = f"Change {self.NOUN} {self._edited}" if self._edited else f"New {self.NOUN}"
        with VerticalScroll(classes="dialog", can_focus=False):
            yield Static(Content(cleaned(title)), classes="dialog-title", markup=False)
            if self._edited is None:
                yield Field("name", "Name", Input(placeholder="resnet-50", compact=True, id="name"))
            for key, label, widget in self.fields():
                yield Field(key, label, widget)
            yield Static(classes="dialog-error", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Cancel"), id="cancel", compact=True)
                yield Button(Content("Save  ^s"), id="save", compact=True, variant="primary")

    def text(self, key: str) -> str:
        """What stands in a field, without blanks around it."""
        return self.query_one(f"#{key}", Input).value.strip()

    def chosen(self, key: str) -> str:
        """What is chosen in a field."""
        return self.query_one(f"#{key}", Choice).value

    def count(self, key: str, label: str) -> int | None:
        """A whole number; None for an empty field.

        Raises:
            FieldError: it is something else.
        """
        text = self.text(key)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise FieldError(
                key, f"{label}: {text!r} is no number", "a whole number, 1 or more, or nothing"
            ) from None

    @on(Input.Submitted)
    def _next_field(self) -> None:
        self.focus_next()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "save":
            self.action_save()
        else:
            self.action_cancel()

    def action_cancel(self) -> None:
        """Leave; nothing is saved."""
        self.dismiss(None)

    def action_save(self) -> None:
        """Save, or say beside the field what is wrong."""
        for field in self.query(Field):
            field.show_error("")
        self.query_one(".dialog-error", Static).update(Content(""))
        try:
            self.dismiss(self._save())
        except RankdeckError as error:
            self._tell(error)

    def _save(self) -> str:
        values = self.values()
        library = self._library
        if self._edited is not None:
            path = library.path(self.KIND, self._edited)
            self.write(path, values)
            return self._edited
        name = self.text("name")
        try:
            path = library.new_path(self.KIND, name)
        except RankdeckError as error:
            raise FieldError("name", error.message if name else "a name is needed", error.hint) from None
        self.create(path, {key: value for key, value in values.items() if value is not None})
        return name

    def write(self, path: Path, values: Mapping[str, Any]) -> None:
        """Change the file."""
        edit.write_profile(path, values)

    def create(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write the new file."""
        edit.new_profile(path, values)

    def _tell(self, error: RankdeckError) -> None:
        keys = {field.key: field for field in self.query(Field)}
        key = error.field if isinstance(error, FieldError) else _key_of(error.message, list(keys))
        # The file's path and line mean nothing here: the person has not seen it yet.
        message = error.message if isinstance(error, FieldError) else _without_place(error.message)
        if key in keys:
            keys[key].show_error(message, error.hint)
            for widget in keys[key].query("Input, Choice"):
                widget.focus()
        else:
            text = "\n".join(
                cleaned(line) for part in (message, error.hint) if part for line in part.splitlines()
            )
            self.query_one(".dialog-error", Static).update(Content(text))


class ProfileForm(SaveForm):
    """A profile: what to run."""

    def on_mount(self) -> None:
        """Fill in what the file says."""
        if self._edited is None:
            self.query_one("#name").focus()
            return
        try:
            profile = self._library.profile(self._edited)
        except RankdeckError as error:
            self._tell(error)
            return
        program = profile.script or (
            f"-m {profile.module}" if profile.module else shlex.join(profile.command)
        )
        values = {
            "program": program,
            "args": shlex.join(profile.args),
            "nodes": str(profile.nodes or ""),
            "procs_per_node": str(profile.procs_per_node or ""),
            "env": shlex.join(f"{name}={value}" for name, value in profile.env.items()),
        }
        for key, text in values.items():
            self.query_one(f"#{key}", Input).value = text
        self.query_one("#framework", Choice).set(frameworks.names(), profile.framework)
        names = self._pool_names()
        pool = profile.pool or pools.LOCAL
        self.query_one("#pool", Choice).set(names if pool in names else [pool, *names], pool)
        self.query_one("#framework").focus()

    def _pool_names(self) -> list[str]:
        return list(dict.fromkeys([pools.LOCAL, *(pool.name for pool in self._library.pools())]))

    def fields(self) -> Iterator[tuple[str, str, Widget]]:
        """What a newcomer needs; all other keys are for the editor."""
        yield (
            "framework",
            "Framework",
            Choice(frameworks.names(), frameworks.names()[0], label=_framework_label, id="framework"),
        )
        yield (
            "program",
            "Script",
            Input(placeholder="train.py, or -m package.train", compact=True, id="program"),
        )
        yield "args", "Arguments", Input(placeholder="--epochs 50 --rank $RANK", compact=True, id="args")
        yield "pool", "Pool", Choice(self._pool_names(), pools.LOCAL, id="pool")
        yield "nodes", "Nodes", Input(placeholder="all of the pool", compact=True, id="nodes")
        yield (
            "procs_per_node",
            "Ranks a node",
            Input(placeholder="one for each slot", compact=True, id="procs_per_node"),
        )
        yield "env", "Environment", Input(placeholder='NCCL_DEBUG=INFO A="two words"', compact=True, id="env")

    def values(self) -> dict[str, Any]:
        """The keys of the file."""
        pool = self.chosen("pool")
        values: dict[str, Any] = {"framework": self.chosen("framework"), **self._program()}
        values["args"] = words_of("args", self.text("args")) or None
        values["pool"] = None if pool == pools.LOCAL and pool not in self._library.paths(POOLS) else pool
        values["nodes"] = self.count("nodes", "Nodes")
        values["procs_per_node"] = self.count("procs_per_node", "Ranks a node")
        values["env"] = variables_of(self.text("env")) or None
        return values

    def _program(self) -> dict[str, Any]:
        words = words_of("program", self.text("program"))
        none: dict[str, Any] = {"script": None, "module": None, "command": None}
        if not words:
            raise FieldError("program", "what is run?", "a script such as train.py, or -m package.train")
        if self.chosen("framework") == "command":
            return {**none, "command": words}
        if words[0] == "-m" and len(words) == 2:
            return {**none, "module": words[1]}
        if len(words) > 1:
            raise FieldError(
                "program", f"{len(words)} words where one script is wanted", "put the rest into Arguments"
            )
        return {**none, "script": words[0]}


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
        kinds = [str(kind) for kind in (BackendKind.SSH, BackendKind.LOCAL)]
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


def _key_of(message: str, keys: list[str]) -> str:
    """The field a file's error is about, by the key it names first."""
    text = _without_place(message)
    named = {"script": "program", "module": "program", "command": "program"}
    found = [(text.find(word), named.get(word, word)) for word in [*keys, *named] if text.find(word) >= 0]
    return min(found)[1] if found else ""


def _without_place(message: str) -> str:
    """A file's error without the file's path and line before it."""
    head, separator, rest = message.partition(": ")
    return rest if separator and ".toml" in head else message


def _framework_label(name: str) -> str:
    """A framework and when to choose it."""
    return f"{name}: {frameworks.summaries()[name]}" if name in frameworks.names() else name
