"""What the screens tell of the runs they follow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rankdeck_runs.live import LiveRun
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.notices.notifier import Notifier


class Watching:
    """The runs that some screen has followed, until they have ended.

    Args:
        to_terminal: writes to the terminal, from the screens' own thread.
        on_trouble: told, in any thread, what is wrong with the settings, or with a command or webhook.
    """

    def __init__(self, to_terminal: Callable[[str], None], on_trouble: Callable[[str], None]) -> None:
        self._to_terminal = to_terminal
        self._on_trouble = on_trouble
        self._since = time.time()
        self._runs: dict[str, LiveRun] = {}
        self._preparing = threading.Lock()
        self._seen: set[str] = set()
        self._first: list[tuple[RunSnapshot, Path]] = []
        """Runs as they were when they were first seen: what has happened since is told."""
        self._notifier: Notifier | None = None

    def prepare(self, config_dir: str | os.PathLike[str]) -> None:
        """Read the settings, once (a file, and imports: call it in a thread)."""
        with self._preparing:  # a second notifier would not know what the first has been told
            if self._notifier is None:
                self._notifier = self._make(config_dir)

    def _make(self, config_dir: str | os.PathLike[str]) -> Notifier:
        from rankdeck_profiles.notify import Notify, SettingsError, load_notify
        from rankdeck_tui.notices.notifier import Notifier

        try:
            settings = load_notify(config_dir)
        except SettingsError as error:
            settings = Notify()
            self._on_trouble(f"{error.message}. {error.hint}")
        return Notifier(settings, self._to_terminal, self._on_trouble, self._since)

    def add(self, live: LiveRun) -> None:
        """Watch a run; a newer view of one takes the place of the older."""
        if live.run_id not in self._seen:
            self._seen.add(live.run_id)
            self._first.append((live.snapshot(), live.path))
        self._runs[live.run_id] = live

    def look(self) -> None:
        """Tell what has happened since the last look."""
        if self._notifier is None:
            return
        for snapshot, path in self._first:
            self._notifier.look(snapshot, path)
        self._first.clear()
        for run_id, live in list(self._runs.items()):
            if self._notifier.look(live.snapshot(), live.path):
                del self._runs[run_id]
