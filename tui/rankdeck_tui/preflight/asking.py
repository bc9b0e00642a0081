"""Having the nodes checked: one question at a time, its progress and its answer. No widgets."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile

if TYPE_CHECKING:
    from rankdeck_runs.checking import Checked
    from rankdeck_runs.engine import Engine

LINES_KEPT = 200


class Asking:
    """What preflight is about to find, or has found.

    The engine's thread writes the progress; the screen's timer reads everything.
    """

    def __init__(self) -> None:
        self.progress: deque[str] = deque(maxlen=LINES_KEPT)
        """What is under way, newest last."""
        self.checked: Checked | None = None
        """The last answer."""
        self.error: RankdeckError | None = None
        """Why there is no newer one."""
        self.since = 0.0
        """When the question was asked, by the monotonic clock."""
        self._future: Future[Checked] | None = None

    @property
    def under_way(self) -> bool:
        """Whether an answer is waited for."""
        return self._future is not None

    def begin(self, engine: Engine, profile: Profile | None, pool: Pool) -> None:
        """Ask; an earlier question's answer is not waited for."""
        self.forget()
        self.progress.clear()
        self.error = None
        self.since = time.monotonic()
        self._future = engine.check(profile, pool, self.progress.append)

    def forget(self) -> None:
        """Wait for no answer any more."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def take(self) -> bool:
        """Take the answer up; True once, when it has come."""
        if self._future is None or not self._future.done():
            return False
        future, self._future = self._future, None
        try:
            self.checked = future.result()
        except CancelledError:
            return False
        except RankdeckError as error:
            self.error = error
        return True
