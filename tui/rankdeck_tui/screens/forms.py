"""What the forms of profile and pool share. Files say more than forms can; what is not shown stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus, Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.library import PROFILES, Library
from rankdeck_tui.composing import FieldError
from rankdeck_tui.look.draw import cleaned
from rankdeck_tui.widgets.choice import Choice
from rankdeck_tui.widgets.field import Field

AROUND = 11
"""Rows of a form beside its fields: border, title, help, buttons and the gaps between."""
AROUND_LOW = 6
"""The same on a low screen, which has no gaps and less help."""
LOW = 20
"""Rows below which a screen has the class `-low` (`RankdeckApp.VERTICAL_BREAKPOINTS`)."""


class SaveForm(ModalScreen[str | None]):
    """A form that saves one TOML file; gives the saved name, or None."""

    KIND = PROFILES
    NOUN = "profile"
    EXAMPLE = "resnet-50"
    """A name as people give one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "back", id="form.cancel"),
        Binding("ctrl+s", "save", "save", tooltip="Save the file", id="form.save"),
        # With priority, so that what is typed right behind it goes to the next field already.
        Binding("tab,down", "app.focus_next", "Next field", show=False, priority=True, id="form.next"),
        Binding(
            "shift+tab,up",
            "app.focus_previous",
            "Previous field",
            show=False,
            priority=True,
            id="form.previous",
        ),
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

    def help_of(self, key: str) -> str:
        """What a field is for, in a line or two."""
        raise NotImplementedError

    def write(self, path: Path, values: Mapping[str, Any]) -> None:
        """Change the file."""
        raise NotImplementedError

    def create(self, path: Path, values: Mapping[str, Any]) -> None:
        """Write the new file."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Name and fields, which scroll; help for the field with the focus, what is wrong, two buttons."""
        title = f"Change {self.NOUN} {self._edited}" if self._edited else f"New {self.NOUN}"
        with Vertical(classes="dialog -form"):
            yield Static(Content(cleaned(title)), classes="dialog-title", markup=False)
            with VerticalScroll(classes="dialog-fields", can_focus=False):
                if self._edited is None:
                    yield Field("name", "Name", Input(placeholder=self.EXAMPLE, compact=True, id="name"))
                for key, label, widget in self.fields():
                    yield Field(key, label, widget)
                yield from self.more()
            yield Static(classes="dialog-help", markup=False)
            yield Static(classes="dialog-error", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Cancel"), id="cancel", compact=True)
                yield Button(Content("Save  ^s"), id="save", compact=True, variant="primary")

    def more(self) -> ComposeResult:
        """What stands below the fields."""
        return iter(())

    def on_resize(self, event: Resize) -> None:
        """The fields scroll in what title, help and buttons leave."""
        low = event.size.height < LOW
        room = event.size.height if low else event.size.height * 9 // 10
        self.query_one(".dialog-fields").styles.max_height = max(3, room - (AROUND_LOW if low else AROUND))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Tell what the field is for."""
        self.show_help()

    def show_help(self) -> None:
        """Help for the field with the focus."""
        focused = self.focused
        field = (
            next((node for node in focused.ancestors if isinstance(node, Field)), None) if focused else None
        )
        self.query_one(".dialog-help", Static).update(Content(self.help_of(field.key) if field else ""))

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
        self._say("")
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

    def _tell(self, error: RankdeckError) -> None:
        fields = {field.key: field for field in self.query(Field)}
        key = error.field if isinstance(error, FieldError) else self.field_of(error.where)
        # The file's path and line mean nothing here: the person has not seen it yet.
        message = error.message if isinstance(error, FieldError) else _without_place(error.message)
        if key in fields:
            fields[key].show_error(message, error.hint)
            for widget in fields[key].query("Input, Choice"):
                widget.focus()
        else:
            text = "\n".join(
                cleaned(line) for part in (message, error.hint) if part for line in part.splitlines()
            )
            self._say(text)

    def _say(self, text: str) -> None:
        label = self.query_one(".dialog-error", Static)
        label.update(Content(text))
        label.set_class(bool(text), "-shown")

    def field_of(self, where: tuple[str | int, ...]) -> str:
        """The field that shows a key of the file."""
        return str(where[0]) if where else ""


def _without_place(message: str) -> str:
    """A file's error without the file's path and line before it."""
    head, separator, rest = message.partition(": ")
    return rest if separator and ".toml" in head else message
