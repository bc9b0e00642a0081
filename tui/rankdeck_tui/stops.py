"""A stop that is under way, in words, for screens and command line alike: who is left, for how long. Pure."""

from __future__ import annotations

import math

from rankdeck_runs.states import NodeState, RankState
from rankdeck_tui import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankdeck_runs.states import RankStatus, RunSnapshot
    from rankdeck_runs.stopping import StopProgress

MOST_RANGES = 12
"""Ranges of ranks that one line names."""


def countdown(left: float) -> str:
    """Until what is left of a stopped run is killed: `SIGKILL in 3 s`, `SIGKILL in 1:07`.

    Args:
        left: seconds. They are rounded up, so that a grace of 3 s begins with 3 and no line says 0.
    """
    if left <= 0:
        return "SIGKILL sent"
    whole = math.ceil(left)
    return f"SIGKILL in {whole} s" if whole < 60 else f"SIGKILL in {words.duration(whole)}"


def kill_times(snapshot: RunSnapshot) -> Mapping[int, float]:
    """The ranks that have not ended although their node stops: rank -> when it gets SIGKILL, by our clock."""
    nodes = {node.name: node.kill_at for node in snapshot.nodes if node.kill_at is not None}
    if not nodes:
        return {}
    return {
        rank.rank: moment
        for rank in snapshot.ranks
        if rank.state is RankState.RUNNING and (moment := nodes.get(rank.node)) is not None
    }


def state_of(rank: RankStatus, kills: Mapping[int, float]) -> RankState | NodeState:
    """A rank's state as it is shown: one that runs on while its node stops is `stopping`."""
    return NodeState.STOPPING if rank.rank in kills else rank.state


def left_on(progress: StopProgress, *, forced: bool = False) -> str:
    """Who is left on a node: `ranks 3, 7 and 1 other process on n2: SIGKILL in 6 s`, or `n2: gone`.

    Args:
        progress: what the node said.
        forced: True where SIGKILL was asked for at once: then there is nothing to be counted down.
    """
    ranks = [rank for rank, _ in progress.left if rank is not None]
    others = sum(rank is None for rank, _ in progress.left)
    who = [_ranks(ranks)] if ranks else []
    if others:
        noun = ("other process", "other processes") if ranks else ("process", "processes")
        who.append(words.plural(others, *noun))
    if not who:
        return f"{progress.node}: gone"
    return f"{' and '.join(who)} on {progress.node}: {countdown(0 if forced else progress.grace_left)}"


def _ranks(ranks: list[int]) -> str:
    ranges = words.as_ranges(ranks).split(",")
    more = ", ..." if len(ranges) > MOST_RANGES else ""
    return f"rank{'s' if len(set(ranks)) > 1 else ''} {', '.join(ranges[:MOST_RANGES])}{more}"
