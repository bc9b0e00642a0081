"""Ranks that are done while others go on: in a collective these then wait for ever. Pure."""

from __future__ import annotations

from rankdeck_runs.states import RankState, RunSnapshot, RunState

EARLY = 30.0
"""Seconds that a rank may be done before it is worth a word: the last of a job end within moments."""
MOST_NAMED = 4


def early(snapshot: RunSnapshot, now: float) -> str:
    """Who ended with success while others run, in words; empty if nobody did. It is no failure.

    Args:
        snapshot: the run.
        now: unix seconds.
    """
    if snapshot.state is not RunState.RUNNING or not snapshot.counts.get(RankState.SUCCEEDED):
        return ""
    running = snapshot.counts.get(RankState.RUNNING, 0)
    done = [
        rank
        for rank in snapshot.ranks
        if rank.state is RankState.SUCCEEDED and rank.ended is not None and now - rank.ended > EARLY
    ]
    # Where most are done, it is the others that are late: a rank that still writes its results, say.
    if not done or len(done) > running:
        return ""
    named = ", ".join(str(rank.rank) for rank in done[:MOST_NAMED])
    more = f" and {len(done) - MOST_NAMED} more" if len(done) > MOST_NAMED else ""
    who = f"rank {named}" if len(done) == 1 else f"ranks {named}{more}"
    others = "one other rank runs" if running == 1 else f"{running} others run"
    return f"{who} finished early, with success; {others} on, and may wait for it"
