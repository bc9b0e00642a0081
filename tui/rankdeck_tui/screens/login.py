"""What a login asks, as dialogs: new host keys, and secrets to be typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from rankdeck_backends.asking import Accepted, Kind, SecretQuestion, ShownKey
from rankdeck_tui.look.draw import cleaned

_Answer = TypeVar("_Answer")

LOOK_SECONDS = 0.2
"""How soon a question that was taken back is gone: its login is over."""
_AROUND = 12
"""Rows of the dialog of host keys beside the keys: border, title, advice, buttons and the gaps between."""
_TITLES = {
    Kind.PASSPHRASE: "Passphrase",
    Kind.PASSWORD: "Password",
    Kind.PROMPTS: "Login",
}


class _LoginScreen(ModalScreen[_Answer]):
    """Closes by itself when the question is taken back."""

    def __init__(self, taken_back: Callable[[], bool], refusal: _Answer) -> None:
        super().__init__()
        self._taken_back = taken_back
        self._refusal = refusal

    def watch_question(self) -> None:
        """Begin to look whether the question still stands."""
        self.set_interval(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if self._taken_back() and self.is_current:
            self.dismiss(self._refusal)

    def action_refuse(self) -> None:
        """Close without an answer."""
        self.dismiss(self._refusal)


class HostKeysScreen(_LoginScreen[Accepted]):
    """Hosts that no known_hosts file knows. Stop has the focus, so a stray Enter accepts nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "refuse", "stop", id="hostkeys.stop"),
        Binding("y", "accept('first')", "Accept the first", show=False, id="hostkeys.first"),
        Binding("a", "accept('all')", "Accept all shown", show=False, id="hostkeys.all"),
        Binding("left,h", "app.focus_previous", "Other button", show=False, id="hostkeys.left"),
        Binding("right,l", "app.focus_next", "Other button", show=False, id="hostkeys.right"),
    ]

    def __init__(self, keys: Sequence[ShownKey], taken_back: Callable[[], bool]) -> None:
        """Make the question.

        Args:
            keys: the keys, each with its host.
            taken_back: whether the question has become pointless.
        """
        super().__init__(taken_back, Accepted.NONE)
        self._keys = tuple(keys)

    def compose(self) -> ComposeResult:
        """What it is about, the keys (which scroll), where they go, buttons."""
        count = len(self._keys)
        one = count == 1
        title = "The host key is not known yet" if one else f"{count} host keys are not known yet"
        with Vertical(classes="dialog"):
            yield Static(Content(title), classes="dialog-title", markup=False)
            with VerticalScroll(classes="dialog-fields", id="keys", can_focus=not one):
                yield Static(Content("\n".join(map(_told, self._keys))), markup=False)
            yield Static(Content(self._advice()), classes="dialog-help", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Stop (n)"), id="stop", compact=True)
                first = "Accept (y)" if one else "Accept the first (y)"
                yield Button(Content(first), id="first", compact=True, variant="primary")
                if not one:
                    yield Button(Content(f"Accept all {count} (a)"), id="all", compact=True)

    def on_mount(self) -> None:
        """Stop is what Enter means."""
        self.query_one("#stop").focus()
        self.watch_question()

    def on_resize(self, event: Resize) -> None:
        """The keys scroll in what title, advice and buttons leave."""
        self.query_one("#keys").styles.max_height = max(3, event.size.height * 9 // 10 - _AROUND)

    def _advice(self) -> str:
        saved = self._keys[0].saved_in
        kept = f"saved in {cleaned(str(saved))}" if saved else "trusted until rankdeck is left"
        them = ("it", "it is") if len(self._keys) == 1 else ("them", "they are")
        return f"Compare {them[0]} with what the hosts say themselves. Accepted, {them[1]} {kept}."

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "stop":
            self.action_refuse()
        else:
            self.action_accept(str(event.button.id))

    def action_accept(self, which: str) -> None:
        """Accept the first one, or all that are shown."""
        self.dismiss(Accepted.FIRST if len(self._keys) == 1 else Accepted(which))


def _told(key: ShownKey) -> str:
    named = "" if key.known_as == key.hop.node else f"  {key.known_as}"
    others = f"\n  known until now by a key of type {key.other_types}" if key.other_types else ""
    return "\n".join(
        cleaned(line)
        for line in f"{key.hop.title}{named}\n  {key.algorithm} {key.fingerprint}{others}".split("\n")
    )


class SecretScreen(_LoginScreen[tuple[str, ...] | None]):
    """Prompts to be answered; what is secret is not shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", "cancel", id="secret.cancel"),
        Binding("tab,down", "app.focus_next", "Next field", show=False, priority=True, id="secret.next"),
        Binding(
            "shift+tab,up",
            "app.focus_previous",
            "Previous field",
            show=False,
            priority=True,
            id="secret.previous",
        ),
    ]

    def __init__(self, question: SecretQuestion, taken_back: Callable[[], bool]) -> None:
        """Make the dialog.

        Args:
            question: what is asked, by whom.
            taken_back: whether the question has become pointless.
        """
        super().__init__(taken_back, None)
        self._question = question

    def compose(self) -> ComposeResult:
        """Who asks, their words, why once more, the prompts, two buttons."""
        question = self._question
        title = f"{_TITLES[question.kind]} for {question.hop.title}"
        with Vertical(classes="dialog"):
            yield Static(Content(cleaned(title)), classes="dialog-title", markup=False)
            text = "\n".join(cleaned(line) for line in question.text.splitlines())
            yield Static(Content(text), classes="dialog-text", markup=False)
            if question.note:
                yield Static(Content(question.note), classes="dialog-error", markup=False)
            with VerticalScroll(classes="dialog-fields", can_focus=False):
                for prompt in question.prompts:
                    yield Static(
                        Content(cleaned(prompt.text.strip())), classes="dialog-help -short", markup=False
                    )
                    yield Input(password=not prompt.echo, compact=True)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Cancel"), id="cancel", compact=True)
                yield Button(Content("Log in"), id="answer", compact=True, variant="primary")

    def on_mount(self) -> None:
        """The first prompt is typed at once."""
        self.query(Input).first().focus()
        self.watch_question()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        fields = list(self.query(Input))
        if event.input is fields[-1]:
            self._answer()
        else:
            self.focus_next()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "answer":
            self._answer()
        else:
            self.action_refuse()

    def _answer(self) -> None:
        typed = tuple(field.value for field in self.query(Input))
        # A server may ask for a mere Enter; an empty passphrase or password is a stray one.
        if self._question.kind is Kind.PROMPTS or all(typed):
            self.dismiss(typed)


def dialog(question: tuple[ShownKey, ...] | SecretQuestion, answer: Future[Any]) -> ModalScreen[Any]:
    """The dialog that asks this question; it closes by itself once the answer is not wanted any more."""
    if isinstance(question, SecretQuestion):
        return SecretScreen(question, answer.cancelled)
    return HostKeysScreen(question, answer.cancelled)
