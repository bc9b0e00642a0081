"""Questions on the terminal, one after the other. An answer that can't be is told, and asked for again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import output

Answer = TypeVar("Answer")


def may_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, read: Callable[[str], Answer], *, default: str = "") -> Answer:
    """Asks until the answer can be read.

    Args:
        question: some words; what Enter gives is shown behind them.
        read: the answer, without blanks around it, as a value; an empty one is asked for with `default`.
            Raises RankdeckError for what can't be.
        default: what an empty answer means, as it is shown; empty: there is no default, `read` decides.

    Raises:
        KeyboardInterrupt: the terminal is gone, or Ctrl-C.
    """
    shown = f" [{default}]" if default else ""
    while True:
        output.prompt(question, output.BLUE)
        output.prompt(f"{shown}: ")
        line = sys.stdin.readline()
        if not line:
            output.say("")
            raise KeyboardInterrupt
        try:
            return read(line.strip())
        except RankdeckError as error:
            output.error(error.message, error.hint)
