"""Which of the ranks that failed is to blame: by order and by words. Pure.

A follower's exit may be recorded before the culprit's: on a loaded node a crashing program takes its time to
end, while its peers notice the closed connection at once. So what a rank says of itself counts before the
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_runs.causes import Cause, CauseKind, Followers
from rankdeck_runs.failures import Failure
from rankdeck_runs.judging.patterns import Blame
from rankdeck_runs.judging.words import Words

WORDS_WIN = 2.0
"""Seconds within which one that says why it failed comes before one that ended earlier without a word."""
SILENT_WITHIN = 10.0
"""Seconds after a follower's end within which a silent end still may have been what it died of."""
MOST_SILENT = 4
"""Ranks named as those that wrote nothing while all others waited."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank, launcher or node that did not end well."""

    failure: Failure
    words: Words
    failed: bool = True
    """False: it was only stopped, after another's failure."""
    launched: bool = False
    """A launcher started it, and may have killed it after another's failure."""

    @property
    def is_follower(self) -> bool:
        """Whether its own words, or its launcher's manner, say that another one's end was first."""
        by_launcher = self.launched and self.words.reason == "killed"
        return self.words.blame is not Blame.OWN or by_launcher


def judge(suspects: Sequence[Suspect], silent: Sequence[int] = ()) -> Cause:
    """The cause.

    Args:
        suspects: at least one; those that failed in order, the first failure first, then those that were
            stopped.
        silent: ranks that ran to the stop and whose logs tell of no trouble at all.
    """
    chosen = _chosen([each for each in suspects if each.failed], [e for e in suspects if not e.failed])
    words, failure = chosen.words, chosen.failure
    said = words.said
    if chosen.is_follower and words.blame is Blame.PEER_LATE and silent and len(silent) <= MOST_SILENT:
        said += f"; {_listed(silent)} wrote no such word: look there first"
    elif chosen.is_follower and words.blame is not Blame.OWN:
        said += "; which rank began it is not known: no log tells of an error of its own"
    if chosen.words.blame is Blame.PEER_LATE and _is_behind(chosen, suspects):
        said += "; it was behind the others: they waited in a later collective"
    rank = failure.rank
    return Cause(
        rank,
        failure.node,
        failure.kind,
        words.message,
        words.evidence,
        words.reason,
        said,
        words.proofs,
        _followers(chosen, suspects),
    )


def _chosen(failed: Sequence[Suspect], stopped: Sequence[Suspect]) -> Suspect:
    first = failed[0]
    if not first.is_follower:
        return first if first.words.spoken else _spoken_soon(first, failed)
    own = [each for each in failed if not each.is_follower]
    if told := next((each for each in own if each.words.spoken), None):
        return told
    limit = first.failure.t + SILENT_WITHIN
    if untold := next((each for each in own if each.failure.t <= limit), None):
        return untold
    late = next((each for each in failed if each.words.blame is Blame.PEER_LATE), None)
    if late is None:
        return first
    # One that lives on after its error holds the others up until their patience ends.
    hung = next((each for each in stopped if each.words.by_log and not each.is_follower), None)
    return hung or _behind(failed) or late


def _spoken_soon(first: Suspect, failed: Sequence[Suspect]) -> Suspect:
    limit = first.failure.t + WORDS_WIN
    near = (each for each in failed if each.failure.t <= limit)
    return next((each for each in near if each.words.by_log and not each.is_follower), first)


def _behind(failed: Sequence[Suspect]) -> Suspect | None:
    """The one whose watchdog gave up an earlier collective than those of all others."""
    works = [(each.words.work.stuck, each) for each in failed if each.words.work is not None]
    if len(works) < 2:
        return None
    works.sort(key=lambda pair: pair[0])
    return works[0][1] if works[0][0] < works[1][0] else None


def _is_behind(chosen: Suspect, suspects: Sequence[Suspect]) -> bool:
    return _behind([each for each in suspects if each.failed]) is chosen


def _followers(chosen: Suspect, suspects: Sequence[Suspect]) -> tuple[Followers, ...]:
    groups: dict[str, list[int]] = {}
    for each in suspects:
        if each is not chosen and each.failed and each.failure.rank is not None:
            groups.setdefault(_manner(each), []).append(each.failure.rank)
    return tuple(Followers(tuple(sorted(set(ranks))), said) for said, ranks in groups.items())


def _manner(each: Suspect) -> str:
    if each.is_follower and each.failure.kind is not CauseKind.LAUNCHER:
        return each.words.said
    return f"failed as well: {each.words.message}"


def _listed(ranks: Sequence[int]) -> str:
    named = ", ".join(str(rank) for rank in ranks)
    return f"rank {named}" if len(ranks) == 1 else f"ranks {named}"
