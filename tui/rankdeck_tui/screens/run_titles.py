"""The words of the dashboard's title line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdeck_runs.live import LinkState, LinkStatus
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui import stops, words
from rankdeck_tui.look import Look, draw, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets import network_words

EDGES = 7
"""Cells that the line has beside its words: its edges, the gap between its sides, the dot behind the id."""
LEAST_ID = 8
"""Cells that an id keeps."""


def title(
    snapshot: RunSnapshot,
    links: Mapping[str, LinkStatus],
    ages: Mapping[str, float],
    look: Look,
    now: float,
    width: int,
) -> tuple[Parts, Parts]:
    """State, name, time at the left; links and the age of the data at the right.

    Where it is narrow, the run's id gives way to its time, and to when the rest of a stopped run is killed.

    Args:
        snapshot: the run.
        links: node -> its link.
        ages: node -> seconds since its latest sample came.
        look: inks and glyphs.
        now: unix seconds.
        width: cells of the line.
    """
    ink = look.ink
    right = _links(snapshot, links, ages, look, now)
    dot: Part = (f" {look.glyphs.dot} ", ink.faint)
    timing = snapshot.timing
    begin = timing.started or timing.created
    end = timing.ended or (None if snapshot.state.is_terminal else now)
    state: list[Part] = [*marks.mark(snapshot.state, look), ("  ", ink.text)]
    times: list[Part] = []
    if begin is not None and end is not None:
        times += [(words.duration(end - begin), ink.text), dot]
    if snapshot.kill_at is not None:
        times += [(stops.countdown(snapshot.kill_at - now), ink.warn), dot]
    room = width - draw.measure([*state, *times, *right]) - EDGES
    if room < len(snapshot.id) and times:
        return [*state, (_shortened(snapshot.id, room, look), ink.strong), dot, *times[:-1]], right
    left: list[Part] = [*state, (snapshot.id, ink.strong), dot, *times]
    left.append(
        (
            f"{words.plural(len(snapshot.ranks), 'rank')} on {words.plural(len(snapshot.nodes), 'node')}",
            ink.text,
        )
    )
    left += [dot, (snapshot.framework, ink.dim)]
    if snapshot.attempt_text:
        left += [dot, (snapshot.attempt_text, ink.warn if snapshot.attempt > 1 else ink.dim)]
    network = network_words.of_run(snapshot, look)
    left += [dot, *network] if network else []
    return left, right


def _shortened(run_id: str, room: int, look: Look) -> str:
    """The id's end, which tells runs apart, where there is no room for all of it."""
    room = max(room, LEAST_ID)
    return run_id if len(run_id) <= room else look.glyphs.ellipsis + run_id[1 - room :]


def unwritten(why: str, look: Look) -> Parts:
    """What stands at the right while the record can't be written; nodes that seem lost then are not."""
    return [(f"{look.glyphs.failed} record can't be written: {why}", look.ink.bad)]


def _links(
    snapshot: RunSnapshot,
    links: Mapping[str, LinkStatus],
    ages: Mapping[str, float],
    look: Look,
    now: float,
) -> Parts:
    ink = look.ink
    lost = {name: link for name, link in links.items() if link.state is LinkState.LOST}
    if lost:
        longest = max(now - link.since for link in lost.values())
        names = _named(sorted(lost))
        return [
            *marks.mark(LinkState.LOST, look, letters=False),
            (f" {names} {words.age(longest)}", ink.lost),
            *([(" needs you: C", ink.warn)] if any(link.needs_person for link in lost.values()) else []),
        ]
    if snapshot.complete:
        return [("record complete", ink.dim)]
    waiting = [name for name, link in links.items() if link.state is LinkState.CONNECTING]
    if waiting:
        return [(f"{look.glyphs.checking} connecting {_named(waiting)}", ink.waiting)]
    if snapshot.state.is_terminal:
        return [("fetching the rest", ink.warn)]
    fresh = max(ages.values(), default=None)
    data = "" if fresh is None else f" {look.glyphs.dot} data {words.age(fresh)}"
    return [(f"{words.plural(len(links), 'link')} up", ink.good), (data, ink.dim)] if links else []


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= 2 else words.plural(len(nodes), "node")
