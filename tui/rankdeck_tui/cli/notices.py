"""What `rankdeck run` tells beside what it prints: at the terminal, by a command, by a webhook."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rankdeck_profiles.notify import load_notify
from rankdeck_profiles.paths import config_dir
from rankdeck_tui.cli import output
from rankdeck_tui.notices.notifier import Notifier

if TYPE_CHECKING:
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_tui.cli.follow import View


class Notices:
    """Tells of the run that is launched next, as settings.toml says.

    Raises:
        SettingsError: the file says something that can't be; better told before the launch than at its end.
    """

    def __init__(self) -> None:
        terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        settings = load_notify(config_dir())
        self._notifier = Notifier(settings, _to_terminal if terminal else None, output.warning)

    def of(self, view: View, record: Record) -> View:
        """A view that shows what `view` shows, and has what happens told."""
        return _ToldView(view, record, self._notifier)

    def wait(self) -> None:
        """Until all has been told, or its time is up."""
        self._notifier.wait()


class _ToldView:
    def __init__(self, view: View, record: Record, notifier: Notifier) -> None:
        self._view = view
        self._record = record
        self._notifier = notifier

    def show(self, snapshot: RunSnapshot) -> int:
        self._notifier.look(snapshot, self._record.path)
        return self._view.show(snapshot)

    def finish(self, snapshot: RunSnapshot) -> None:
        self._view.finish(snapshot)
        self._notifier.look(snapshot, self._record.path, last=True)


def _to_terminal(sequence: str) -> None:
    sys.stderr.write(sequence)
    sys.stderr.flush()
