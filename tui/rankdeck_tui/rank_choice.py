"""Which ranks a person means: `0,3-5`, `node:n3`, `failed`, `all`; on command line and screen alike."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.matching import short
from rankdeck_runs.states import RankState, RunSnapshot
from rankdeck_tui import words

ALL = "all"
FAILED = "failed"
_NODE = "node:"


class RankSetError(RankdeckError):
    """A choice of ranks can't be read, or names ranks or nodes that aren't there."""


def chosen(text: str, snapshot: RunSnapshot) -> tuple[int, ...]:
    """Reads a choice of ranks.

    Args:
        text: numbers and ranges joined by commas; or `node:` and a node's name; `failed`, for ranks that
            failed or were lost; `all`.
        snapshot: the run.

    Returns:
        The ranks, ascending, each once. None of them may have failed.

    Raises:
        RankSetError: it is no such choice, or a rank or node in it does not exist.
    """
    word = text.strip()
    if word == ALL:
        return tuple(rank.rank for rank in snapshot.ranks)
    if word == FAILED:
        return tuple(r.rank for r in snapshot.ranks if r.state in (RankState.FAILED, RankState.LOST))
    if word.startswith(_NODE):
        return _of_node(word.removeprefix(_NODE).strip(), snapshot)
    return _numbers(text, (rank.rank for rank in snapshot.ranks))


def _of_node(name: str, snapshot: RunSnapshot) -> tuple[int, ...]:
    names = [node.name for node in snapshot.nodes]
    found = [known for known in names if name in (known, short(known))]
    if len(found) != 1:
        raise RankSetError(
            f"ranks 'node:{name}': {'more than one' if found else 'no'} node of this run is called so",
            f"nodes here: {', '.join(names)}",
        )
    return tuple(rank.rank for rank in snapshot.ranks if rank.node == found[0])


def _numbers(text: str, known: Iterable[int]) -> tuple[int, ...]:
    existing = sorted(known)
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", part, re.ASCII)
        if match is None:
            raise RankSetError(
                f"ranks {text!r}: {part!r} is neither a rank nor a range",
                "write for example 0,3-5, node:NAME, failed or all",
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise RankSetError(
                f"ranks {text!r}: the range {part.strip()} runs backwards", f"write {last}-{first}"
            )
        # Compared before the range is made: 0-99999999999 is a typing error, not a list to build.
        for edge in (first, last):
            if not existing or not existing[0] <= edge <= existing[-1]:
                raise RankSetError(
                    f"ranks {text!r}: there is no rank {edge}", f"ranks here: {words.as_ranges(existing)}"
                )
        wanted.update(range(first, last + 1))
    return tuple(sorted(wanted.intersection(existing)))
