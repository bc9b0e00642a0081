"""Which runs go when old ones are removed. Pure: what their summaries say, and nothing else, decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rankdeck_runs.collection import CopyState
from rankdeck_runs.states import RunState
from rankdeck_runs.summary import RunSummary

ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED})


@dataclass(frozen=True, slots=True)
class Rule:
    """What a person wants to be rid of. A run goes if it meets all that is asked for."""

    names: tuple[str, ...] = ()
    """Ids of the runs meant; none: all."""
    older_than: float | None = None
    """Seconds since their end."""
    keep: int = 0
    """So many of the newest runs stay, whatever else is asked for."""
    states: frozenset[str] = frozenset()
    """Only runs in one of these states; none: whatever their state."""
    uncollected: bool = False
    """Also runs whose logs are not all in their records."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rule comes to."""

    going: tuple[RunSummary, ...]
    """Newest first."""
    staying: tuple[tuple[RunSummary, str], ...]
    """Runs that meet the rule and stay all the same, with the reason."""

    @property
    def size(self) -> int:
        """Bytes of the records that go, as far as noted."""
        return sum(run.disk_bytes or 0 for run in self.going)


def choose(runs: Sequence[RunSummary], rule: Rule, now: float) -> Choice:
    """Which runs go.

    Args:
        runs: all, newest first.
        rule: what is asked for.
        now: unix seconds.
    """
    going, staying = [], []
    for run in _meant(runs, rule, now):
        why = _must_stay(run, rule)
        if why:
            staying.append((run, why))
        else:
            going.append(run)
    return Choice(tuple(going), tuple(staying))


def may_go(run: RunSummary) -> bool:
    """Whether a run is over on all its nodes, as far as its summary says.

    `unknown` is also what a record is that can't be read; one that is complete was read, and its nodes told
    that it is over, though not how each rank ended.
    """
    return run.state in ENDED or (run.state == RunState.UNKNOWN and run.complete)


def age(run: RunSummary, now: float) -> float | None:
    """Seconds since the run ended, or was created; None: not known."""
    for moment in (run.ended, run.created):
        if moment is not None:
            try:
                return now - datetime.fromisoformat(moment).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
    return None


def _meant(runs: Sequence[RunSummary], rule: Rule, now: float) -> Iterable[RunSummary]:
    for run in runs[rule.keep :]:
        if rule.names and run.id not in rule.names:
            continue
        if rule.states and run.state not in rule.states:
            continue
        if rule.older_than is not None:
            since = age(run, now)
            if since is None or since < rule.older_than:
                continue
        yield run


def _must_stay(run: RunSummary, rule: Rule) -> str:
    if not may_go(run):
        unread = run.state == RunState.UNKNOWN
        return "its record can't be read" if unread else f"not known to have ended: last seen {run.state}"
    if rule.uncollected:
        return ""
    if run.lacks:
        return f"its logs are not all here: {run.lacks}"
    if not run.complete or run.logs == CopyState.MISSING:
        return "its logs are not all here"
    return ""
