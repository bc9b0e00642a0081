"""Ctrl-C while a run is followed: it asks, rather than tearing the program out of what it is doing."""

from __future__ import annotations

import signal
import sys
from enum import Enum, auto
from types import FrameType
from typing import Self

from rankdeck_tui.cli import output


class Choice(Enum):
    """What a person wants after Ctrl-C."""

    CONTINUE = auto()
    DETACH = auto()
    STOP = auto()


class Interrupts:
    """Counts Ctrl-C instead of raising at any place. A context manager.

    The first one is noted in `pressed` and acted on where it suits. Another one before that raises
    KeyboardInterrupt, so that a program stuck in a write can always be left.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True

    def take(self) -> bool:
        """Whether Ctrl-C was pressed since the last call."""
        pressed, self.pressed = self.pressed, False
        return pressed

    def ask(self) -> Choice:
        """Asks what to do with the run that is followed. Without a terminal, or at a second Ctrl-C: stop."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return Choice.STOP
        self.pressed = True  # the next one raises
        try:
            while True:
                output.prompt(
                    "\nThe run goes on. [s]top it, [d]etach and leave it running, or [c]ontinue following? "
                )
                answer = sys.stdin.readline()
                if not answer:
                    return Choice.DETACH  # the terminal is gone
                match answer.strip().lower()[:1]:
                    case "s":
                        return Choice.STOP
                    case "d":
                        return Choice.DETACH
                    case "c" | "":
                        return Choice.CONTINUE
        except KeyboardInterrupt:
            output.say("")
            return Choice.STOP
        finally:
            self.pressed = False
