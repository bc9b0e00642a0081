"""Asking the nodes about a draft: one question at a time, its progress and its answer. No widgets."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_runs.errors import NODE_NOT_REACHED, PrepareError

if TYPE_CHECKING:
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.preparing import Prepared


class Checking:
    """What is known from the nodes about the draft on screen.

    The engine's thread writes `progress`; the screen's timer reads everything.
    """

    def __init__(self) -> None:
        self.progress = ""
        """What is under way, in one line."""
        self.prepared: Prepared | None = None
        self.error: RankdeckError | None = None
        self._future: Future[Prepared] | None = None
        self._taken = False

    @property
    def begun(self) -> bool:
        """Whether the nodes were asked."""
        return self._future is not None

    @property
    def done(self) -> bool:
        """Whether they have answered, and `take` has seen it."""
        return self._taken

    @property
    def plan(self) -> LaunchPlan | None:
        """The plan made of the nodes' answers, also where it was refused; None where they allow none."""
        if self.prepared is not None:
            return self.prepared.plan
        return self.error.plan if isinstance(self.error, PrepareError) else None

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """(node, problem) that the nodes named."""
        return self.error.problems if isinstance(self.error, PrepareError) else ()

    @property
    def may_skip(self) -> bool:
        """Whether the run could be launched all the same: every node was reached."""
        return isinstance(self.error, PrepareError) and self.error.exit_status != NODE_NOT_REACHED

    def begin(self, engine: Engine, profile: Profile, pool: Pool, *, skip_checks: bool = False) -> None:
        """Ask the nodes; an earlier question's answer is not waited for."""
        self.forget()
        self._future = engine.prepare(profile, pool, self.say, skip_checks=skip_checks)

    def say(self, text: str) -> None:
        """Take one line of progress (from any thread)."""
        self.progress = text

    def forget(self) -> None:
        """The draft has changed: what the nodes said is about another one."""
        if self._future is not None:
            self._future.cancel()
        self._future, self._taken = None, False
        self.prepared, self.error, self.progress = None, None, ""

    def take(self) -> bool:
        """Take the answer up; True once, when it has come."""
        if self._future is None or self._taken or not self._future.done():
            return False
        self._taken = True
        try:
            self.prepared = self._future.result()
        except CancelledError:
            self.forget()
            return False
        except RankdeckError as error:
            self.error = error
        return True
