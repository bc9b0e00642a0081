"""Drives a program in a tmux server of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from terminal import draw

SETTINGS = """
set -g default-terminal tmux-256color
set -g default-shell /bin/sh
set -g remain-on-exit on
set -g remain-on-exit-format ""
set -g status off
set -g escape-time 0
set -g history-limit 10000
"""
"""The last screen stays when the program ends, a lone Escape arrives at once, and no line is tmux's own."""

Condition = str | re.Pattern[str] | Callable[[str], bool]


class ScreenError(AssertionError):
    """The screen did not become what was waited for; the message shows it."""


def missing() -> str | None:
    """Why there is no terminal here, in one sentence; None if there is."""
    return None if shutil.which("tmux") else "needs tmux, which is not installed"


class Tmux:
    """A terminal window with one program in it, closed at the end of the ``with`` block."""

    def __init__(
        self,
        columns: int = 120,
        rows: int = 40,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Describes the window; ``start`` opens it.

        Args:
            columns: Width in cells.
            rows: Height in cells.
            env: Variables beside, or in place of, those of this process.
            cwd: Folder in which the program starts; this process's own if not given.
        """
        self.columns, self.rows = columns, rows
        self._cwd = cwd or Path.cwd()
        inherited = {
            name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE", "NO_COLOR"}
        }
        self._env = {**inherited, "LANG": "C.UTF-8", "COLORTERM": "truecolor", **(env or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="rankdeck-tmux-"))
        self._settings = self._folder / "tmux.conf"
        self._settings.write_text(SETTINGS)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._folder / "socket"), "-f", str(self._settings), *arguments],
            env=self._env,
            cwd=self._cwd,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
        if check and done.returncode:
            raise ScreenError(f"tmux {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, command: Sequence[str]) -> None:
        """Opens the window with a program; no shell stays between."""
        size = ["-x", str(self.columns), "-y", str(self.rows)]
        self._tmux("new-session", "-d", *size, "-c", str(self._cwd), f"exec {shlex.join(command)}")

    def close(self) -> None:
        """Closes the window: the program gets SIGHUP, as from a closed terminal. Again is no error."""
        self._tmux("kill-server", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- what a person does --

    def keys(self, *names: str) -> None:
        """Presses keys by tmux's names: ``Enter``, ``Escape``, ``Down``, ``C-c``, ``a``."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        """Types text as it is."""
        self._tmux("send-keys", "-l", "--", text)

    def resize(self, columns: int, rows: int) -> None:
        """Changes the window's size."""
        self.columns, self.rows = columns, rows
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # -- what a person sees --

    def text(self) -> str:
        """The screen, without colours and without blanks at line ends."""
        return self._tmux("capture-pane", "-p")

    def ansi(self) -> str:
        """The screen with its colours, as SGR sequences."""
        return self._tmux("capture-pane", "-e", "-N", "-p")

    def png(self, path: Path) -> Path:
        """Draws the screen as a picture, cell by cell."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draw.picture(self.ansi(), self.columns, self.rows).save(path)
        return path

    def wait_for(self, condition: Condition, timeout: float = 30.0) -> str:
        """Waits until the screen holds a text, matches a pattern, or satisfies a function; returns it.

        Raises:
            ScreenError: It did not within the timeout, in seconds.
        """
        return self._wait(lambda screen: _holds(screen, condition), f"waited for {condition!r}", timeout)

    def wait_until_gone(self, condition: Condition, timeout: float = 30.0) -> str:
        """The opposite of wait_for."""
        return self._wait(lambda screen: not _holds(screen, condition), f"{condition!r} should go", timeout)

    def _wait(self, wanted: Callable[[str], bool], what: str, timeout: float) -> str:
        limit = time.monotonic() + timeout
        while True:
            screen = self.text()
            if wanted(screen):
                return screen
            if time.monotonic() > limit:
                status = self.exit_status
                ended = "" if status is None else f"; the program has ended with status {status}"
                raise ScreenError(f"{what} for {timeout} s{ended}. The screen:\n{screen}")
            time.sleep(0.1)

    # -- the program --

    @property
    def pid(self) -> int:
        """The program's process id."""
        return int(self._ask("#{pane_pid}"))

    @property
    def exit_status(self) -> int | None:
        """The program's exit status, -N for an end by signal N; None while it runs."""
        dead, status, signal = self._ask("#{pane_dead},#{pane_dead_status},#{pane_dead_signal}").split(",")
        if dead == "1" and not (status or signal):
            # tmux 3.3a now and then misses that a child has ended; another child's end makes it look again.
            self._tmux("run-shell", "true")
            dead, status, signal = self._ask("#{pane_dead},#{pane_dead_status},#{pane_dead_signal}").split(
                ","
            )
        if dead != "1" or not (status or signal):
            return None
        return int(status) if status else -int(signal)

    def _ask(self, what: str) -> str:
        return self._tmux("display-message", "-p", what).strip()

    def wait_exit(self, timeout: float = 30.0) -> int:
        """Waits until the program has ended and returns its exit status.

        Raises:
            ScreenError: It did not within the timeout, in seconds.
        """
        self._wait(lambda _: self.exit_status is not None, "waited for the program's end", timeout)
        status = self.exit_status
        assert status is not None
        return status


def _holds(screen: str, condition: Condition) -> bool:
    if isinstance(condition, str):
        return condition in screen
    if isinstance(condition, re.Pattern):
        return condition.search(screen) is not None
    return condition(screen)
