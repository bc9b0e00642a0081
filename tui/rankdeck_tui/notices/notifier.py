"""Watches runs, and tells what happens to them in each of the ways that are set."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from rankdeck_profiles.notify import Notify
from rankdeck_runs.occasions import Occasion, Occasions
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui.notices.escapes import BELL, notification
from rankdeck_tui.notices.outward import Outward


class Notifier:
    """Tells each thing that happens to a run once.

    Args:
        settings: what of, and how.
        to_terminal: writes to the terminal; None: there is none.
        on_trouble: told why a command or webhook failed, once each, in a thread of its own.
        since: unix seconds from which on runs are ours to tell of from their beginning; None: now.
    """

    def __init__(
        self,
        settings: Notify,
        to_terminal: Callable[[str], None] | None,
        on_trouble: Callable[[str], None],
        since: float | None = None,
    ) -> None:
        self._settings = settings
        self._to_terminal = to_terminal
        self._outward = Outward(settings, on_trouble)
        self._since = time.time() if since is None else since
        self._runs: dict[str, Occasions] = {}

    def look(self, snapshot: RunSnapshot, record: Path, *, last: bool = False) -> bool:
        """Take in how a run is now. What a run that was launched before us had come to already is not told.

        Args:
            snapshot: the run.
            record: its record's folder.
            last: nobody will look again.

        Returns:
            Whether its end was told: there is nothing more to look at.
        """
        if snapshot.id not in self._runs:
            ours = (snapshot.timing.created or 0.0) >= self._since
            self._runs[snapshot.id] = Occasions(None if ours else snapshot)
        occasions = self._runs[snapshot.id]
        for occasion in occasions.take(snapshot, time.monotonic(), last=last):
            if occasion.kind in self._settings.on:
                self._tell(occasion, record)
        return occasions.ended

    def wait(self) -> None:
        """Until commands and webhooks are through, or their time is up."""
        self._outward.wait()

    def _tell(self, occasion: Occasion, record: Path) -> None:
        if self._to_terminal is not None:
            sequence = notification(occasion.message, self._settings.desktop, os.environ)
            if self._settings.bell:
                sequence += BELL
            if sequence:
                self._to_terminal(sequence)
        self._outward.tell(occasion, record)
