"""A failure's cause in words, for screens and command line alike."""

from __future__ import annotations

from rankdeck_runs.causes import Cause
from rankdeck_tui.words import as_ranges

MOST_PLACES = 3
MOST_FOLLOWERS = 4


def where(cause: Cause) -> str:
    """Rank and node, as far as there is a rank."""
    return cause.node if cause.rank is None else f"rank {cause.rank} on {cause.node}"


def why(cause: Cause) -> str:
    """What sort of trouble it was; empty while nobody has looked."""
    return cause.said[:1].upper() + cause.said[1:]


def places(cause: Cause) -> list[str]:
    """Where it is written, and what nodes saw of it."""
    shown = []
    for proof in cause.proofs[:MOST_PLACES]:
        told = "" if proof.text == cause.message.strip() else proof.text
        shown.append(": ".join(part for part in (proof.place, told) if part))
    return [line for line in shown if line]


def followers(cause: Cause) -> list[str]:
    """Who ended because of it, and how."""
    lines = []
    for group in cause.followers[:MOST_FOLLOWERS]:
        ranks = "rank" if len(group.ranks) == 1 else "ranks"
        lines.append(f"then {ranks} {as_ranges(group.ranks)}: {group.said}")
    more = sum(len(group.ranks) for group in cause.followers[MOST_FOLLOWERS:])
    return [*lines, f"and {more} more ranks"] if more else lines
