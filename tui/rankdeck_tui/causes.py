"""A failure's cause in words, for screens and command line alike."""

from __future__ import annotations

import re

from rankdeck_runs.causes import Cause
from rankdeck_tui.words import as_ranges

MOST_PLACES = 3
_MARKERS = re.compile(r"\s*[~^]+\s*")
"""What Python puts below a source line of a traceback."""
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


def evidence(cause: Cause, most: int) -> list[str]:
    """The lines that led to the cause: of a traceback, the frames nearest to the error.

    Args:
        cause: why a run failed.
        most: lines there is room for.
    """
    message = cause.message.strip()
    told = [text for text in cause.evidence if not _MARKERS.fullmatch(text)]
    at = next((index for index in range(len(told) - 1, -1, -1) if told[index].strip() == message), None)
    before = told[:at]
    after = [] if at is None else told[at + 1 :]
    shown = before[max(0, len(before) - most) :] if most > 0 else []
    return [*shown, *after[: max(0, most - len(shown))]]


def followers(cause: Cause) -> list[str]:
    """Who ended because of it, and how."""
    lines = []
    for group in cause.followers[:MOST_FOLLOWERS]:
        ranks = "rank" if len(group.ranks) == 1 else "ranks"
        lines.append(f"then {ranks} {as_ranges(group.ranks)}: {group.said}")
    more = sum(len(group.ranks) for group in cause.followers[MOST_FOLLOWERS:])
    return [*lines, f"and {more} more ranks"] if more else lines
