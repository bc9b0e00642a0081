"""A launch that is under way, and how it is called off. No widgets."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.errors import CalledOffError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankdeck_runs.engine import Engine
    from rankdeck_runs.preparing import Prepared

QUESTION = (
    "No further node is asked, what has started is stopped,",
    "and you are told once nothing of it is left. Its record stays.",
)
"""What to know before a launch is called off."""


@dataclass(frozen=True, slots=True)
class Launched:
    """How a launch ended."""

    run_id: str = ""
    """The run; empty where none was recorded."""
    error: RankdeckError | None = None
    """Why it did not start."""
    told: str = ""
    """What is to be said of a launch that was to be called off; else empty."""


class Launching:
    """One launch at a time. The screen's timer asks `take` for its end."""

    def __init__(self) -> None:
        self.called_off = False
        self._future: Future[str] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a start is under way whose end was not taken up."""
        return self._future is not None

    def begin(self, engine: Engine, prepared: Prepared, progress: Callable[[str], None]) -> None:
        """Start the run."""
        self.called_off = False
        self._future = engine.launch(prepared, progress)

    def call_off(self, engine: Engine) -> None:
        """Nobody wants it any more; `take` tells what came of that."""
        if self._future is not None:
            self.called_off = True
            engine.call_off(self._future)

    def take(self) -> Launched | None:
        """How it ended; once, when it has."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        try:
            run_id = future.result()
        except CalledOffError as error:
            return Launched(error=error if error.problems else None, told=error.message)
        except RankdeckError as error:
            return Launched(getattr(error, "run_id", ""), error)
        late = "It had been started before it could be called off: x stops it." if self.called_off else ""
        return Launched(run_id, told=late)
