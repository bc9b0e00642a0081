"""Opens the Textual screens."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli.surroundings import library, run_home

if TYPE_CHECKING:
    from rankdeck_backends.asking import Asker
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.home import RunHome


class NoTerminalError(RankdeckError):
    """The screen was asked for where there is no terminal."""


def require_terminal() -> None:
    """Sees that there is a terminal for the screen.

    Raises:
        NoTerminalError: stdin or stdout is none.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminalError(
            "the screen needs a terminal, and stdin or stdout is none",
            "'rankdeck --help' lists the commands that print; with ssh, 'ssh -t HOST rankdeck' gives it one",
        )


class EngineWhenNeeded:
    """Stands in for the engine until it is first used: its import would delay the first frame by a quarter.

    It is made a moment after the start in a thread of its own, or when something is asked of it before.
    """

    WARM_UP_SECONDS = 1.0
    """From the start until it is made: by then the first frame has been drawn."""

    def __init__(self, home: RunHome, asker: Asker | None = None) -> None:
        self._home = home
        self._asker = asker
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._closed = False
        self._warm_up = threading.Timer(self.WARM_UP_SECONDS, self._make)
        self._warm_up.daemon = True

    def __enter__(self) -> Engine:
        self._warm_up.start()
        return cast("Engine", self)

    def __exit__(self, *_: object) -> None:
        self._warm_up.cancel()
        with self._lock:
            self._closed = True
        if self._engine is not None:
            self._engine.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)

    def _make(self) -> Engine | None:
        with self._lock:
            if self._engine is None and not self._closed:
                from rankdeck_runs.engine import Engine

                self._engine = Engine(self._home, asker=self._asker)
            return self._engine


def open_screen(run_id: str | None = None) -> int:
    """Opens the app and returns its exit status when it is left.

    Args:
        run_id: open this run's dashboard first; None: the home screen.

    Raises:
        NoTerminalError: there is no terminal.
    """
    require_terminal()
    # Imports make much and drop nothing: looking for garbage is in vain. The app switches it on again.
    gc.disable()
    from rankdeck_tui import crash
    from rankdeck_tui.app import run_app
    from rankdeck_tui.asking import ScreenAsker

    home, asker = run_home(), ScreenAsker()
    # Outside of the engine: what goes wrong while it is closed is for the log file, too.
    with crash.quiet_terminal(Path(home.path) / "state"), EngineWhenNeeded(home, asker) as engine:
        return run_app(engine, home, library(), run_id, asker)
