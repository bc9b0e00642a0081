"""Which files hold what some ranks of a run wrote, and by which clock their times are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rankdeck_runs import events, layout
from rankdeck_runs.failures import SKEW_THAT_COUNTS
from rankdeck_runs.states import RankStatus, RunSnapshot
from rankdeck_runs.timeline import TimedLog
from rankdeck_runs.values import number, text


def timed_logs(
    logs: Path,
    snapshot: RunSnapshot,
    ranks: Iterable[int],
    streams: Iterable[str],
    skews: Mapping[str, float],
    attempt: int | None = None,
) -> list[TimedLog]:
    """The log files of some ranks, by rank, then stream.

    Args:
        logs: the record's `logs` folder.
        snapshot: says which node each rank is on. One that no node is known of has written nothing.
        ranks: the ranks wanted.
        streams: of `out` and `err`.
        skews: node -> seconds that its clock was ahead of ours; others' were right.
        attempt: of a launcher that starts its ranks again; None: each rank's newest.
    """
    wanted = tuple(streams)
    found = [_in_attempt(snapshot.ranks[rank], attempt) for rank in ranks]
    return [
        TimedLog(
            logs / layout.rank_log(rank.rank, stream, rank.attempt),
            logs / layout.rank_log(rank.rank, "times", rank.attempt),
            stream,
            skews.get(rank.node, 0.0),
            rank.rank,
            rank.node,
            rank.attempt,
        )
        for rank in found
        if rank is not None and rank.node
        for stream in wanted
    ]


def _in_attempt(rank: RankStatus, attempt: int | None) -> RankStatus | None:
    """A rank in one attempt; None: it was not in it. With None for the attempt, in its newest."""
    if attempt is None or attempt == rank.attempt:
        return rank
    return next((past for past in rank.earlier if past.attempt == attempt), None)


def clock_skews(events_path: Path) -> dict[str, float]:
    """Node -> seconds that its clock was ahead at the last connection, where that counts; of a record."""
    found: dict[str, float] = {}
    for event in events.read(events_path):
        if event["ev"] == "link_up":
            skew = number(event, "skew") or 0.0
            found[text(event, "node")] = skew if abs(skew) > SKEW_THAT_COUNTS else 0.0
    return found
