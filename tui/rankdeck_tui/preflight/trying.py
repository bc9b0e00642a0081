"""Having pairs of nodes send: one test at a time, how far it is, and what it came to. No widgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_runs.active import ActiveTest, Measured
    from rankdeck_runs.engine import Engine


class Trying:
    """What is being tried. A thread of its own does it; the screen's timer reads everything."""

    def __init__(self) -> None:
        self.done = self.total = 0
        """Pairs that have ended, and all."""
        self.under_way = False
        self._test: ActiveTest | None = None
        self._called_off = Event()
        self._ended: list[Sequence[Measured] | RankdeckError] = []

    def begin(
        self, engine: Engine, test: ActiveTest, pool: Pool, profile: Profile | None, python: str
    ) -> None:
        """Begin; the arguments are those of `rankdeck_runs.active.measure`."""
        from rankdeck_runs.active import measure

        self.done = self.total = 0
        self.under_way = True
        self._test = test
        self._called_off = off = Event()
        ended: list[Sequence[Measured] | RankdeckError] = []
        self._ended = ended

        def told(done: int, total: int) -> None:
            self.done, self.total = done, total

        def work() -> None:
            try:
                ended.append(
                    measure(engine, test, pool, base=profile, python=python, progress=told, called_off=off)
                )
            except RankdeckError as error:
                ended.append(error)

        Thread(target=work, name="active test", daemon=True).start()

    def call_off(self) -> None:
        """End the runs under way; nobody waits for what they come to."""
        self._called_off.set()
        self.under_way = False
        self._ended = []

    def take(self, use: Callable[[ActiveTest, Sequence[Measured]], None]) -> RankdeckError | None:
        """Hand over what the pairs came to, once; gives the error instead, if there was one."""
        if not self.under_way or not self._ended or self._test is None:
            return None
        self.under_way = False
        came = self._ended.pop()
        if isinstance(came, RankdeckError):
            return came
        use(self._test, came)
        return None
