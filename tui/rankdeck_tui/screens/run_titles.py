"""The words of the dashboard's title line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdeck_runs.live import LinkState, LinkStatus
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui import words
from rankdeck_tui.look import Look, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets import network_words


def title(
    snapshot: RunSnapshot,
    links: Mapping[str, LinkStatus],
    ages: Mapping[str, float],
    look: Look,
    now: float,
) -> tuple[Parts, Parts]:
    """State, name, time at the left; links and the age of the data at the right.

    Args:
        snapshot: the run.
        links: node -> its link.
        ages: node -> seconds since its latest sample came.
        look: inks and glyphs.
        now: unix seconds.
    """
    ink = look.ink
    dot: Part = (f" {look.glyphs.dot} ", ink.faint)
    timing = snapshot.timing
    begin = timing.started or timing.created
    end = timing.ended or (None if snapshot.state.is_terminal else now)
    left: list[Part] = [*marks.mark(snapshot.state, look), ("  ", ink.text), (snapshot.id, ink.strong), dot]
    if begin is not None and end is not None:
        left += [(words.duration(end - begin), ink.text), dot]
    if snapshot.kill_at is not None:
        left += [(words.countdown(snapshot.kill_at - now), ink.warn), dot]
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
    return left, _links(snapshot, links, ages, look, now)


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
