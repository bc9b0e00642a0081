"""`rankdeck run` on a terminal: colours, and what Ctrl-C asks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.on_terminal import Terminal
from cli.user import Shell

QUESTION = "[s]top it, [d]etach and leave it running, or [c]ontinue following?"


@pytest.fixture
def following(rankdeck: Shell) -> Iterator[Terminal]:
    """A run that goes on until it is stopped, followed on a terminal; every rank has said hello."""
    rankdeck.save_pool()
    rankdeck.save_profile("long", "until=go")
    terminal = Terminal(rankdeck, "run", "long")
    try:
        terminal.until(lambda text: text.count("says hello") == 4)
        yield terminal
    finally:
        terminal.close()


def _ranks_live(rankdeck: Shell) -> int:
    return sum(Path(f"/proc/{rank['pid']}").exists() for rank in rankdeck.json("show", "last")["ranks"])


def test_prefixes_have_colours_on_a_terminal(following: Terminal) -> None:
    assert "\x1b[36m[0 127.0.0.1]\x1b[0m rank 0 of 4 says hello" in following.seen


def test_no_color_is_heeded(rankdeck: Shell) -> None:
    rankdeck.save_profile("hello", pool="local")
    terminal = Terminal(rankdeck, "run", "hello", NO_COLOR="1")
    try:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.seen
    finally:
        terminal.close()


def test_detaching_leaves_the_run_running(rankdeck: Shell, following: Terminal) -> None:
    following.type("\x03")
    following.until(QUESTION)
    following.type("d\r")
    assert following.end() == 0
    assert "rankdeck attach" in following.seen
    assert _ranks_live(rankdeck) == 4


def test_continuing_and_then_stopping(rankdeck: Shell, following: Terminal) -> None:
    following.type("\x03")
    following.until(QUESTION)
    following.type("c\r")
    following.until(
        "following again"
    )  # the terminal throws away what it has not handed over when Ctrl-C comes
    following.type("\x03")
    following.until(QUESTION)
    assert _ranks_live(rankdeck) == 4
    following.type("s\r")
    assert following.end() == 130
    assert rankdeck.json("show", "last")["state"] == "stopped"
    assert _ranks_live(rankdeck) == 0


def test_ctrl_c_twice_stops_without_an_answer(rankdeck: Shell, following: Terminal) -> None:
    following.type("\x03")
    following.until(QUESTION)
    following.type("\x03")
    assert following.end() == 130
    assert _ranks_live(rankdeck) == 0


def test_a_terminal_that_goes_away_leaves_the_run_running(rankdeck: Shell, following: Terminal) -> None:
    os.kill(following.pid, signal.SIGHUP)
    assert following.end() != 0
    assert _ranks_live(rankdeck) == 4
