"""Brings a login's question from the engine's thread to the screen, and the answer back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from textual.message import Message

from rankdeck_backends.asking import Accepted, SecretQuestion, ShownKey

if TYPE_CHECKING:
    from textual.app import App


class LoginAsks(Message):
    """A login needs an answer.

    Attributes:
        question: unknown host keys, or something to be typed.
        answer: takes it; cancelled if the question is taken back.
    """

    def __init__(self, question: tuple[ShownKey, ...] | SecretQuestion, answer: Future[Any]) -> None:
        super().__init__()
        self.question = question
        self.answer = answer


class ScreenAsker:
    """The person in front of the screens. Called on the engine's thread."""

    def __init__(self) -> None:
        self._app: App[Any] | None = None

    def attach(self, app: App[Any]) -> None:
        """From now on questions go to this app; until then, they are refused."""
        self._app = app

    async def host_keys(self, keys: Sequence[ShownKey]) -> Accepted:
        """Have the keys shown and accepted, or not."""
        answer = await self._ask(tuple(keys))
        return answer if isinstance(answer, Accepted) else Accepted.NONE

    async def secrets(self, question: SecretQuestion) -> Sequence[str] | None:
        """Have the prompts answered; None: the person does not."""
        answer = await self._ask(question)
        return answer if isinstance(answer, tuple) else None

    async def _ask(self, question: tuple[ShownKey, ...] | SecretQuestion) -> object:
        answer: Future[object] = Future()
        if self._app is None or not self._app.post_message(LoginAsks(question, answer)):
            return None
        return await asyncio.wrap_future(answer)
