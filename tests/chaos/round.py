"""One round: several runs at once, what befalls them, and the reckoning."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.checks import violations
from chaos.field import Field
from chaos.schedule import Schedule, Strike
from chaos.sight import beside_the_system
from chaos.strikes import ON_RUNS, stop
from chaos.trial import Trial, now

PATIENCE = 60.0
"""Seconds within which a run's ranks must have begun, for what is to be done to them then."""
SETTLED = 240.0
"""Seconds within which every run must be over, once all is well again."""
QUIET = 120.0
"""Seconds within which nothing may be left on a node then: supervisors wait that long for a lost one."""
LINGERING = 10.0
"""Seconds after which what is there is noted, though not yet wrong."""


@dataclass
class Round:
    """A round under way."""

    ground: Field
    schedule: Schedule
    seed: int
    number: int
    trials: list[Trial] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    _began: float = field(default_factory=now)

    def run(self) -> None:
        """All of it; what is wrong is in `found`."""
        self.dice = random.Random(f"{self.seed}/{self.number}/strikes")
        self.trials = [Trial.make(shape, self.ground.site) for shape in self.schedule.shapes]
        self._began = now()
        try:
            self._befall()
            self._settle()
            self._reckon()
        finally:
            for trial in self.trials:
                trial.leave()

    @property
    def report(self) -> str:
        """Everything needed to understand what was found."""
        shapes = "\n".join(f"  {shape}" for shape in self.schedule.shapes)
        trace = "\n".join(f"  {line}" for line in self.trace)
        found = "\n".join(f"* {line}" for line in self.found)
        return (
            f"seed {self.seed}, round {self.number}\nruns:\n{shapes}\nevents:\n{trace}\nviolations:\n{found}"
        )

    # -- what befalls them --

    def _befall(self) -> None:
        waiting: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        for at, trial in zip(self.schedule.launches, self.trials, strict=True):
            waiting.append((self._at(at), self._launch(trial)))
        for strike in self.schedule.strikes:
            if strike.run is None:
                waiting.append(
                    (
                        self._when_due(strike, self.trials),
                        lambda strike=strike: self._on_node(strike, waiting),
                    )
                )
            else:
                trial = self.trials[strike.run]
                waiting.append(
                    (self._when_due(strike, [trial]), lambda s=strike, t=trial: self._on_run(s, t))
                )
        while waiting:
            for entry in [entry for entry in waiting if entry[0]()]:
                waiting.remove(entry)
                entry[1]()
            self._look_after_screens()
            time.sleep(0.02)

    def _at(self, seconds: float) -> Callable[[], bool]:
        due = self._began + seconds
        return lambda: now() >= due

    def _when_due(self, strike: Strike, trials: list[Trial]) -> Callable[[], bool]:
        """True once it is time: so long after all these were launched, or all their ranks have begun."""
        since: list[float] = []
        given_up = self._began + PATIENCE

        def ready(trial: Trial) -> bool:
            if strike.early:
                return trial.launch is not None
            if trial.launch is not None and not trial.launching and trial.launch.returncode:
                return True
            return all(trial.began(rank) for rank in range(trial.shape.world))

        def due() -> bool:
            if not since and (now() > given_up or all(map(ready, trials))):
                since.append(now())
            return bool(since) and now() >= since[0] + strike.after

        return due

    def _launch(self, trial: Trial) -> Callable[[], None]:
        def launch() -> None:
            trial.start()
            self._note(f"{trial.shape.tag}: rankdeck run ({trial.shape.client})")

        return launch

    def _on_run(self, strike: Strike, trial: Trial) -> None:
        what = ON_RUNS[strike.kind](trial, self.dice, now() - self._began)
        self._note(f"{trial.shape.tag}: {strike.kind}: {what or 'there is none'}")
        if not what:
            return
        self.events[strike.kind] += 1
        if strike.kind == "kill session":  # whose it was is not known
            for other in self.trials:
                if other is not trial and trial.hits[-1].node in other.shape.nodes:
                    other.hits.append(trial.hits[-1])

    def _on_node(self, strike: Strike, waiting: list[tuple[Callable[[], bool], Callable[[], None]]]) -> None:
        node = self.ground.cluster.node(strike.node) if strike.node else None
        if node is not None and node.state != "up":
            self._note(f"{strike.node}: {strike.kind}: it is {node.state}")
            return
        for trial in self.trials:
            if not strike.node or strike.node in trial.shape.nodes:
                trial.hit(now() - self._began, strike.kind, strike.node)
        self.ground.strike(strike)
        jumped = f", by {strike.seconds:+g} s" if strike.kind == "jump" else ""
        self._note(f"{strike.node or 'login side'}: {strike.kind} for {strike.lasts:.1f} s{jumped}")
        self.events[strike.kind] += 1
        due = now() + strike.lasts
        waiting.append((lambda: now() >= due, lambda: self._heal(strike)))

    def _heal(self, strike: Strike) -> None:
        self.ground.heal(strike)
        self._note(f"{strike.node or 'login side'}: {strike.kind} is over")

    def _look_after_screens(self) -> None:
        for trial in self.trials:
            trial.drain()
            ready = trial.launch is not None and trial.launch.poll() == 0 and trial.id is not None
            if (
                trial.shape.client == "screen"
                and ready
                and trial.screen is None
                and not trial.was_hit("client")
            ):
                trial.open_screen()

    def _note(self, text: str) -> None:
        self.trace.append(f"{now() - self._began:6.2f} {text}")

    # -- the reckoning --

    def _settle(self) -> None:
        """Waits until every run is over. What would live for ever is stopped by a person."""
        limit = now() + SETTLED
        self._note("all is well again")
        while now() < limit:
            left = [trial for trial in self.trials if not self._is_over(trial)]
            if not left:
                return
            for trial in left:
                self._end(trial)
            time.sleep(1.0)

    def _is_over(self, trial: Trial) -> bool:
        trial.drain()
        if trial.launching and trial.id is None:
            return False
        if trial.id is None:
            return True
        if not trial.over:
            trial.ask()
            if trial.over:
                self._note(f"{trial.shape.tag}: {trial.shown['state']}")
        return trial.over

    def _end(self, trial: Trial) -> None:
        under_way = any(process.poll() is None for process in trial.stops)
        if trial.id is None or under_way or (trial.launching and trial.shape.client != "follow"):
            return
        lasting = not trial.shape.seconds or self._cut_short(trial)
        asked = [process for process in trial.stops if process.poll() == 0]
        if lasting and not asked:
            stop(trial, self.dice, now() - self._began)
            self._note(f"{trial.shape.tag}: rankdeck stop, at the end (it is {trial.shown.get('state')})")

    def _cut_short(self, trial: Trial) -> bool:
        """Whether it may wait for somebody for ever, or long: a person would stop it now."""
        return trial.was_hit("client", "kill", "power") and bool(trial.shown)

    def _reckon(self) -> None:
        for trial in self.trials:
            self.found += [f"{trial.shape.tag} ({trial.id}): {line}" for line in violations(trial, self.dice)]
            trial.leave()
        self.found += [f"{bystander} is gone" for bystander in self.ground.bystanders.missing()]
        self._wait_for_quiet()

    def _wait_for_quiet(self) -> None:
        limit, told = now() + QUIET, now() + LINGERING
        while left := self._left():
            if now() > limit:
                self.found += [f"left behind: {line}" for line in left]
                return
            if now() > told:
                told = limit
                self.trace += [f"       still there after {LINGERING} s: {line}" for line in left]
            time.sleep(0.2)
        self._note("nothing is left on any node")

    def _left(self) -> list[str]:
        return [
            f"{node.name}: {each}" for node in self.ground.cluster.nodes for each in beside_the_system(node)
        ]
