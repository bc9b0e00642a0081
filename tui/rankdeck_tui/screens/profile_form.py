"""The form for a profile: what is run, by which framework, on how many nodes and with which settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from rankdeck_profiles import edit, frameworks, pools
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.frameworks.options import Option
from rankdeck_profiles.library import POOLS
from rankdeck_profiles.model import CommBackend, Profile
from rankdeck_tui.composing import FieldError, ranks_by_default, variables_of, words_of
from rankdeck_tui.program import PROGRAM_KEYS, Seen, look_into, program_of
from rankdeck_tui.screens.forms import SaveForm
from rankdeck_tui.widgets.choice import Choice
from rankdeck_tui.widgets.field import Field

PLACES = {"workdir": "", "python": "python3"}
"""Where and by what it runs, with what holds where the field is left empty."""
COUNTS = {"nodes": "Nodes", "procs_per_node": "Ranks a node", "process_count": "Ranks in all"}

_HELP = {
    "name": "The file's name, by which you launch it.",
    "program": "A Python file, -m and a module, or any program: alone, without a launcher before it. "
    "A script that is found here is looked into for its framework.",
    "args": "$RANK, $LOCAL_RANK, $WORLD_SIZE, $NODE_RANK, $MASTER_ADDR and $MASTER_PORT are filled in for "
    "each rank.",
    "pool": "The nodes it runs on. local is this machine, without any setting.",
    "nodes": " ".join(frameworks.ADVICE[1:]),
    "procs_per_node": f"A rank is a process, mostly one a GPU. {frameworks.ADVICE[0]}",
    "process_count": "The total, in place of ranks a node.",
    "env": "Variables for the program. They stand in the file: for secrets use env_from there, a list of "
    "names whose values are taken from your shell.",
    "workdir": "Where it runs, on every node: a path there, or one relative to where rankdeck is started.",
    "python": "The nodes' interpreter, the one that has your packages: a name in PATH, or a path such as "
    "/home/me/venv/bin/python.",
    "communication_backend": "What the ranks exchange tensors with: nccl for GPUs, gloo for CPUs. The "
    "program gets it as RANKDECK_COMM_BACKEND.",
    "azure_names": "Also set AZ_BATCH_MASTER_NODE and AZ_BATCHAI_MPI_MASTER_NODE, which scripts made for "
    "Azure read.",
}


class ProfileForm(SaveForm):
    """A profile: what to run."""

    class Looked(Message):
        """The script was looked into (in a thread)."""

        def __init__(self, typed: str, seen: Seen | None) -> None:
            super().__init__()
            self.typed = typed
            self.seen = seen

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self._by_hand = name is not None
        """Whether a person chose the framework: then a look into the script only remarks on it."""
        self._places_were = dict.fromkeys(PLACES, "")
        """What the file to change says of them, spelled as it is shown."""
        self._program_was: str | None = None
        """What the file to change says is run."""
        self._options: dict[str, str] = {}
        """Setting -> its text, of all frameworks chosen so far; empty: the default."""

    # What is on screen.

    def fields(self) -> Iterator[tuple[str, str, Widget]]:
        """What most people need; all other keys are for the editor."""
        yield (
            "program",
            "Script",
            Input(placeholder="train.py, or -m package.train", compact=True, id="program"),
        )
        names = frameworks.names()
        yield "framework", "Framework", Choice(names, names[0], label=_framework_label, id="framework")
        yield "args", "Arguments", Input(placeholder="--epochs 50 --rank $RANK", compact=True, id="args")
        yield "pool", "Pool", Choice(self._pool_names(), pools.LOCAL, id="pool")
        hints = ("all of the pool", "one for each slot", "in place of ranks a node")
        for (key, label), hint in zip(COUNTS.items(), hints, strict=True):
            yield key, label, Input(placeholder=hint, compact=True, id=key)
        yield "env", "Environment", Input(placeholder='NCCL_DEBUG=INFO A="two words"', compact=True, id="env")
        for (key, hint), label in zip(PLACES.items(), ("Folder", "Python"), strict=True):
            placeholder = hint or "where rankdeck is started"
            yield key, label, Input(placeholder=placeholder, compact=True, id=key)
        backends = ["", *(str(backend) for backend in CommBackend)]
        choice = Choice(
            backends, "", label=lambda name: name or "the script's own", id="communication_backend"
        )
        yield "communication_backend", "Backend", choice
        yield (
            "azure_names",
            "Azure names",
            Choice(["false", "true"], "false", label=_yes_or_no, id="azure_names"),
        )

    def more(self) -> ComposeResult:
        """The framework's own settings."""
        yield Vertical(id="settings")

    def help_of(self, key: str) -> str:
        """What a field is for; for the framework and its settings, what they themselves say."""
        framework = frameworks.get(self.chosen("framework"))
        if key == "framework":
            return f"{framework.summary}. {framework.advice}"
        option = framework.options.get(key.removeprefix("options."))
        return (
            _option_help(option) if option is not None and key.startswith("options.") else _HELP.get(key, "")
        )

    async def on_mount(self) -> None:
        """Fill in what the file says."""
        if self._edited is None:
            self.query_one("#name").focus()
            await self._show_settings()
            return
        try:
            profile = self._library.profile(self._edited)
        except RankdeckError as error:
            self._tell(error)
            return
        self._fill(profile)
        await self._show_settings()
        self.query_one("#program").focus()

    def _fill(self, profile: Profile) -> None:
        program = profile.script or (
            f"-m {shlex.quote(profile.module)}" if profile.module else shlex.join(profile.command)
        )
        self._places_were = {"workdir": profile.workdir, "python": profile.python}
        self._program_was = program if profile.script is None else shlex.quote(program)
        values = {
            "program": self._program_was,
            "args": shlex.join(profile.args),
            "env": shlex.join(f"{name}={value}" for name, value in profile.env.items()),
            **{key: str(getattr(profile, key) or "") for key in COUNTS},
            **self._places_were,
        }
        for key, text in values.items():
            self.query_one(f"#{key}", Input).value = text
        self.query_one("#framework", Choice).set(frameworks.names(), profile.framework)
        names = self._pool_names()
        pool = profile.pool or pools.LOCAL
        self.query_one("#pool", Choice).set(names if pool in names else [pool, *names], pool)
        backend = self.query_one("#communication_backend", Choice)
        backend.set(backend.values, str(profile.communication_backend or ""))
        self.query_one("#azure_names", Choice).set(["false", "true"], _text_of(profile.azure_names))
        self._options = {key: _text_of(value) for key, value in profile.options.items()}

    def _pool_names(self) -> list[str]:
        return list(dict.fromkeys([pools.LOCAL, *(pool.name for pool in self._library.pools())]))

    # The framework: proposed from the script, and its settings.

    @on(Input.Changed, "#program")
    @on(Input.Changed, "#workdir")
    def _look(self) -> None:
        self._look_into(
            self.query_one("#program", Input).value, Path(os.path.expanduser(self.text("workdir")))
        )

    @work(thread=True, exclusive=True, group="look")
    def _look_into(self, typed: str, folder: Path) -> None:
        try:
            words = words_of("program", typed)
        except FieldError:
            words = []
        seen = look_into(program_of(words), self._library.start_dir / folder) if words else None
        self.post_message(self.Looked(typed, seen))

    @on(Looked)
    async def _take_look(self, message: Looked) -> None:
        if message.typed != self.query_one("#program", Input).value:
            return
        seen = message.seen
        guess = seen.guess if seen else None
        note = seen.says if seen and (seen.found or self._edited is None) else ""
        if guess is not None and not self._by_hand and guess.framework != self.chosen("framework"):
            self.query_one("#framework", Choice).set(frameworks.names(), guess.framework)
            self._options = {key: _text_of(value) for key, value in guess.options.items()}
            await self._show_settings()
        elif guess is not None and guess.framework != self.chosen("framework"):
            note = f"{note}: {guess.framework} would fit"
        if guess is not None and guess.caution:
            note = f"{note}; {guess.caution}"
        self._field("program").show_note(note)

    @on(Choice.Changed, "#framework")
    async def _framework_chosen(self) -> None:
        self._by_hand = True
        await self._show_settings()
        self._look()

    async def _show_settings(self) -> None:
        """The chosen framework's settings, in place of the one's before."""
        name = self.chosen("framework")
        options = frameworks.get(name).options
        hint = ranks_by_default(Profile(name="", framework=name))
        self.query_one("#procs_per_node", Input).placeholder = hint
        settings = self.query_one("#settings", Vertical)
        await settings.remove_children()
        if options:
            heading = Static(Content(f"Settings of {name}"), classes="dialog-heading", markup=False)
            fields = [
                Field(f"options.{key}", key, self._setting(key, option)) for key, option in options.items()
            ]
            await settings.mount(heading, *fields)
        self.show_help()

    def _setting(self, key: str, option: Option) -> Widget:
        text = self._options.get(key, "")
        if option.kind == "switch" or option.choices:
            values = ["", *(option.choices or ("true", "false"))]

            def label(value: str) -> str:
                return value or _default(option)

            return Choice(values, text if text in values else "", label=label, id=f"option-{key}")
        return Input(text, placeholder=_default(option), compact=True, id=f"option-{key}")

    @on(Input.Changed)
    def _setting_typed(self, event: Input.Changed) -> None:
        self._keep(event.input.id, event.value)

    @on(Choice.Changed)
    def _setting_chosen(self, message: Choice.Changed) -> None:
        self._keep(message.choice.id, message.value)

    def _keep(self, widget: str | None, text: str) -> None:
        if widget is not None and widget.startswith("option-"):
            self._options[widget.removeprefix("option-")] = text.strip()

    def _field(self, key: str) -> Field:
        return next(field for field in self.query(Field) if field.key == key)

    # What is saved.

    def values(self) -> dict[str, Any]:
        """The keys of the file."""
        pool = self.chosen("pool")
        values: dict[str, Any] = {"framework": self.chosen("framework"), **self._program()}
        values["args"] = words_of("args", self.text("args")) or None
        values["pool"] = None if pool == pools.LOCAL and pool not in self._library.paths(POOLS) else pool
        for key, label in COUNTS.items():
            values[key] = self.count(key, label)
        values["env"] = variables_of(self.text("env")) or None
        for key, was in self._places_were.items():
            if (text := self.text(key)) != was:
                values[key] = text or None
        values["communication_backend"] = self.chosen("communication_backend") or None
        values["azure_names"] = True if self.chosen("azure_names") == "true" else None
        return {**values, **self._settings()}

    def _program(self) -> dict[str, Any]:
        text = self.text("program")
        if text and text == self._program_was:
            return {}
        words = words_of("program", text)
        if not words:
            raise FieldError("program", "what is run?", "a script such as train.py, or -m package.train")
        program = program_of(words)
        none = dict.fromkeys(PROGRAM_KEYS)
        if "command" in program.keys:
            return {**none, **program.keys, "command": words}
        if program.args:
            raise FieldError(
                "program", f"{len(words)} words where one script is wanted", "put the rest into Arguments"
            )
        return {**none, **program.keys}

    def _settings(self) -> dict[str, Any]:
        """The framework's settings; those of others are taken away, and so is the table when none is left."""
        options = frameworks.get(self.chosen("framework")).options
        chosen = {key: text for key in options if (text := self._options.get(key, ""))}
        if not chosen:
            return {"options": None}
        values: dict[str, Any] = {f"options.{key}": None for key in self._options}
        for key, text in chosen.items():
            option = options[key]
            value = _value_of(option, text)
            if not option.takes(value):
                raise FieldError(f"options.{key}", f"{key} = {text}", f"allowed: {option.allowed}")
            values[f"options.{key}"] = value
        return values

    def field_of(self, where: tuple[str | int, ...]) -> str:
        """The field that shows a key of the file."""
        if where[:1] == ("options",) and len(where) > 1:
            return f"options.{where[1]}"
        key = super().field_of(where)
        return "program" if key in PROGRAM_KEYS else key

    def write(self, path: Path, values: Mapping[str, Any]) -> None:
        """Change the file."""
        edit.write_profile(path, values)

    def create(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write the new file."""
        edit.new_profile(path, values)


def _value_of(option: Option, text: str) -> Any:
    if option.kind == "switch" and text in ("true", "false"):
        return text == "true"
    if option.kind == "count" and text.isascii() and text.lstrip("-").isdecimal():
        return int(text)
    return text


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(option: Option) -> str:
    return "default" if option.default is None else f"default: {_text_of(option.default)}"


def _option_help(option: Option) -> str:
    begins_with_a_value = option.what.partition(":")[0] in option.choices
    what = option.what if begins_with_a_value else option.what[:1].upper() + option.what[1:]
    return f"{what}: {option.allowed}." if option.kind == "count" else f"{what}."


def _yes_or_no(value: str) -> str:
    return "yes" if value == "true" else "no"


def _framework_label(name: str) -> str:
    """A framework and when to choose it."""
    return f"{name}: {frameworks.summaries()[name]}" if name in frameworks.names() else name
