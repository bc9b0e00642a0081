"""Asks on the terminal what logins need: new host keys, passphrases, passwords, codes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rankdeck_backends.asking import Accepted, Kind, SecretQuestion, ShownKey
from rankdeck_tui import words
from rankdeck_tui.cli import output

TERMINAL = "/dev/tty"
"""As ssh does: stdin and stdout may be redirected."""
KEYS_SHOWN = 40
"""Host keys printed one by one; more of them would scroll the question's beginning away."""

_Answer = TypeVar("_Answer")
_LOOK_SECONDS = 0.1
_INTERRUPT, _END, _KILL_LINE = b"\x03", b"\x04", b"\x15"
_ERASE = (b"\x7f", b"\x08")
_ENTER = (b"\r", b"\n")


class TerminalAsker:
    """The person at the terminal. Called on the engine's thread.

    Attributes:
        open: whether a question stands on the terminal: what else is printed would garble it.
    """

    def __init__(self) -> None:
        self.open = False
        self._held = False

    async def host_keys(self, keys: Sequence[ShownKey]) -> Accepted:
        """Prints the keys with their fingerprints, and asks which are the hosts' own."""
        await self._free()
        with self._terminal() as terminal:
            _write(terminal, _told_keys(keys))
            choices = "[y]es, [n]o" if len(keys) == 1 else "[y]es to the first, [a]ll of them, [n]o"
            while True:
                answer = await _line(terminal, f"Accept? {choices}: ", echo=True)
                match (answer or "n").strip().lower():
                    case "y" | "yes":
                        return Accepted.FIRST
                    case "a" | "all" if len(keys) > 1:
                        return Accepted.ALL
                    case "n" | "no" | "":
                        return Accepted.NONE

    async def secrets(self, question: SecretQuestion) -> Sequence[str] | None:
        """Asks each prompt in turn; what is secret is not echoed. Ctrl-D gives up.

        So does Enter alone, but for a server's own prompts: some ask for just that.
        """
        await self._free()
        with self._terminal() as terminal:
            head = f"{question.hop.title}: {question.text}"
            _write(terminal, "\n".join(part for part in (question.note, head) if part) + "\n")
            answers = []
            for prompt in question.prompts:
                answer = await _line(terminal, prompt.text, echo=prompt.echo)
                if answer is None or not (answer or question.kind is Kind.PROMPTS):
                    return None
                answers.append(answer)
            return answers

    def while_held(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask something else, on another thread: questions of logins wait until that is answered."""
        self._held = True
        try:
            return ask()
        finally:
            self._held = False

    async def _free(self) -> None:
        while self._held:  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(_LOOK_SECONDS)

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[int]:
        """The terminal, with keys passed on one by one; as it was before, at the end."""
        terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        before = termios.tcgetattr(terminal)
        now = termios.tcgetattr(terminal)
        now[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
        self.open = True
        try:
            # What was typed before the question was not meant for it.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, now)
            yield terminal
        finally:
            self.open = False
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
            os.close(terminal)


def _told_keys(keys: Sequence[ShownKey]) -> str:
    first = keys[0]
    saved = f"saved in {first.saved_in}" if first.saved_in else "kept for this command alone"
    one = len(keys) == 1
    lines = [f"{words.plural(len(keys), 'host key')} not known yet ({saved} if accepted):"]
    for key in keys[:KEYS_SHOWN]:
        others = f"  (known by a key of type {key.other_types})" if key.other_types else ""
        lines.append(f"  {key.hop.title}: {key.known_as}  {key.algorithm} {key.fingerprint}{others}")
    if len(keys) > KEYS_SHOWN:
        lines.append(f"  and {len(keys) - KEYS_SHOWN} more")
    what = "it with what the node itself says" if one else "them with what the nodes themselves say"
    lines.append(f"Compare {what}.")
    return "\n".join(lines) + "\n"


def _write(terminal: int, text: str) -> None:
    # Servers word their prompts themselves: nothing in them may drive the terminal.
    data = output.printable(text).encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(terminal, data) :]


async def _line(terminal: int, prompt: str, *, echo: bool) -> str | None:
    """One line typed; None: Ctrl-D, Ctrl-C (which interrupts the command, too), or the terminal is gone."""
    loop = asyncio.get_running_loop()
    typed = bytearray()
    done: asyncio.Future[bool] = loop.create_future()

    def take() -> None:
        try:
            key = os.read(terminal, 1)
        except OSError:
            key = b""
        if done.done():
            return
        if key in (b"", _INTERRUPT) or (key == _END and not typed):
            done.set_result(False)
            if key == _INTERRUPT:
                os.kill(os.getpid(), signal.SIGINT)
        elif key in _ENTER:
            done.set_result(True)
        elif key == _KILL_LINE or key in _ERASE:
            _erase(terminal, typed, all_of_it=key == _KILL_LINE, echo=echo)
        elif key >= b" ":
            typed.extend(key)
            if echo:
                os.write(terminal, key)

    _write(terminal, prompt)
    loop.add_reader(terminal, take)
    try:
        entered = await done
        return typed.decode("utf-8", "surrogateescape") if entered else None
    finally:
        loop.remove_reader(terminal)
        _write(terminal, "\n")


def _erase(terminal: int, typed: bytearray, *, all_of_it: bool, echo: bool) -> None:
    """Take back the last character, or all of the line."""
    while typed:
        while len(typed) > 1 and typed[-1] & 0xC0 == 0x80:  # a character's further bytes in UTF-8
            del typed[-1]
        del typed[-1]
        if echo:
            os.write(terminal, b"\b \b")
        if not all_of_it:
            return
