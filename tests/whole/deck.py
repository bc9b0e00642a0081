"""The screens of `rankdeck` in a real terminal, and what a person does there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.user import COMMAND
from terminal import Tmux
from whole.site import LIMIT, Site

SHOTS = "RANKDECK_SHOTS"
"""A folder in this variable gets the pictures of what the tests saw."""

CURSOR = re.compile(r"^│▌ (\S+) ", re.MULTILINE)
"""The row of the cursor in the list of profiles, which is at the left; its first column is the name."""


class Deck:
    """`rankdeck` in a terminal window."""

    def __init__(self, terminal: Tmux) -> None:
        self.terminal = terminal

    @classmethod
    @contextmanager
    def opened(cls, site: Site, *arguments: str, columns: int = 120, rows: int = 40) -> Iterator[Deck]:
        """`rankdeck` with these arguments in a new window, which is closed at the end of the block."""
        shell = site.shell
        with Tmux(columns, rows, env=shell.environment, cwd=shell.folder) as terminal:
            deck = cls(terminal)
            terminal.start([str(COMMAND), *arguments])
            yield deck

    def see(self, what: str | re.Pattern[str], seconds: float = LIMIT) -> str:
        """Waits until the screen shows this; the screen."""
        return self.terminal.wait_for(what, seconds)

    def press(self, *keys: str) -> None:
        """Presses keys, by tmux's names."""
        self.terminal.keys(*keys)

    def shot(self, name: str) -> None:
        """Draws the screen, if pictures are wanted."""
        if folder := os.environ.get(SHOTS):
            self.terminal.png(Path(folder) / f"{name}.png")

    def open_profile(self, profile: str) -> None:
        """From the home screen to the composer of a profile, whose nodes are being asked then."""
        self.see("Profiles")
        self.press("Tab")
        for _ in range(20):
            under_cursor = CURSOR.search(self.see(CURSOR))
            assert under_cursor is not None
            if under_cursor[1] == profile:
                break
            self.press("Down")
            self.terminal.wait_until_gone(under_cursor[0])
        self.press("Enter")

    def compose(self, profile: str, shot: str = "") -> str:
        """From the home screen to the composer of a profile; its screen once the nodes have answered."""
        self.open_profile(profile)
        screen = self.see("nodes were asked")
        if shot:
            self.shot(shot)
        return screen

    def launch(self) -> None:
        """From the composer: launches, and waits for the dashboard to show running ranks."""
        self.press("S")
        self.see(re.compile(r"running  \d{8}-\d{6}-"))

    def back_home(self) -> None:
        """From a dashboard to the list of runs."""
        self.press("Escape")
        self.see("Pools")

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.terminal.pid, signal.SIGKILL)
        assert self.terminal.wait_exit() == -signal.SIGKILL

    def quit(self) -> None:
        """Leaves; asserts that it ended well."""
        self.press("C-q")
        assert self.terminal.wait_exit(60) == 0, self.terminal.text()
