"""What happened, in words: the record's events, read as they come, shown in the order of their times."""

from __future__ import annotations

import math
from bisect import insort_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rankdeck_runs import events
from rankdeck_runs.transport import Transport
from rankdeck_runs.values import integer, number, objects, text
from rankdeck_tui import stops, words
from rankdeck_tui.look import Look
from rankdeck_tui.look.draw import Part, Parts

FIRST_READ: Final = 256 << 10
"""Bytes from the file's end that are read at first: some thousand events, more than anyone scrolls."""
MOST_LINES: Final = 500


@dataclass(frozen=True, slots=True)
class Happening:
    """One event in words."""

    t: float
    """Unix seconds, of the clock of whoever saw it; infinite: not told."""
    node: str
    text: str
    ink: str = "text"
    """Name of the style."""


class EventFeed:
    """The last happenings of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = -1
        self._rest = b""
        self.happenings: list[Happening] = []
        """In the order of their times: nodes tell of what they saw some time after the login side did."""

    def read(self) -> bool:
        """Take in what was added; True if there was something to tell."""
        try:
            with open(self._path, "rb") as file:
                if self._offset < 0:
                    size = file.seek(0, 2)
                    self._offset = max(0, size - FIRST_READ)
                    if self._offset:
                        file.seek(self._offset)
                        self._offset += len(file.readline())
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = [told for line in lines if (event := events.parse(line)) and (told := in_words(event))]
        for happening in found:
            insort_right(self.happenings, happening, key=lambda known: known.t)
        del self.happenings[:-MOST_LINES]
        return bool(found)

    def lines(self, look: Look) -> list[Parts]:
        """The happenings as lines."""
        ink = look.ink
        styles = ink.names()
        result: list[Parts] = []
        for happening in self.happenings:
            parts: list[Part] = [(words.clock(happening.t) + " ", ink.dim)]
            if happening.node:
                parts.append((happening.node + " ", ink.accent))
            parts.append((happening.text, styles[happening.ink]))
            result.append(parts)
        return result


def in_words(event: Mapping[str, Any]) -> Happening | None:
    """One event in words; None for one that tells people nothing."""
    name = event["ev"]
    told = _TOLD.get(name)
    if told is None:
        return None
    said = told(event)
    if said is None:
        return None
    what, ink = said
    moment = number(event, "t")
    return Happening(math.inf if moment is None else moment, text(event, "node"), what, ink)


Said = tuple[str, str] | None


def _rank_ended(event: Mapping[str, Any]) -> Said:
    rank, code, signal = integer(event, "rank"), integer(event, "exit_code"), text(event, "signal")
    if event.get("finished") is True:
        return f"rank {rank} is done: those it served have ended", "good"
    if event.get("asked") is True or (event.get("may_restart") is True and signal == "TERM"):
        return f"rank {rank} ended, as asked" + (f" (SIG{signal})" if signal else ""), "stopped"
    if signal:
        return f"rank {rank} was ended by SIG{signal}", "bad"
    return (f"rank {rank} ended with status {code}", "bad") if code else (f"rank {rank} succeeded", "good")


def _launcher_ended(event: Mapping[str, Any]) -> Said:
    code, signal = integer(event, "exit_code"), text(event, "signal")
    if not code and not signal:
        return None
    how = f"by SIG{signal}" if signal else f"with status {code}"
    return f"launcher ended {how} {text(event, 'message')}".rstrip(), "warn"


def _attempt_started(event: Mapping[str, Any]) -> Said:
    rank = integer(event, "rank")
    why = "" if rank is None else f": rank {rank} had failed"
    return f"attempt {integer(event, 'attempt')} began{why}", "warn"


def _stopping(event: Mapping[str, Any]) -> Said:
    why = text(event, "why")
    if "peer" in event:
        why = text(event, "message")
    elif why == "rank_failed":
        why = f"rank {integer(event, 'rank')} failed"
    elif why == "launcher_ended":
        why = "the launcher has ended"
    elif why == "census":
        why = "these are not the ranks of the plan"
    grace = number(event, "grace")
    how = "at once" if grace == 0 else f"{words.duration(grace)} grace"
    return f"stopping: {why}; SIG{text(event, 'signal')}, {how}", "warn"


def _waiting(event: Mapping[str, Any]) -> Said:
    others = ", ".join(f"{text(peer, 'peer')} ({text(peer, 'what')})" for peer in objects(event, "on"))
    return f"ranks begin together: waiting for {others}", "warn"


def _unreachable(event: Mapping[str, Any]) -> Said:
    limit = words.duration(number(event, "limit"))
    return f"hears nothing of {text(event, 'peer')}: stops after {limit} of silence", "lost"


def _swept(event: Mapping[str, Any]) -> Said:
    count = len(objects(event, "processes"))
    return (f"ended {count} left-over process{'es' if count != 1 else ''}", "warn") if count else None


def _stop_ended(event: Mapping[str, Any]) -> Said:
    return ("all gone", "good") if event.get("gone") is True else ("the stop left something behind", "bad")


def _node_ended(event: Mapping[str, Any]) -> Said:
    state = text(event, "state")
    return f"node {state}", {"succeeded": "good", "failed": "bad"}.get(state, "stopped")


def _transport_found(event: Mapping[str, Any]) -> Said:
    found = [told for shape in objects(event, "transports") if (told := Transport.from_json(shape))]
    said = ", ".join(f"{told.library} {told.words}" for told in found if told.connected)
    return (f"rank {integer(event, 'rank')}: {said}", "dim") if said else None


def _start_refused(event: Mapping[str, Any]) -> Said:
    return f"start refused: {text(event, 'message')}", "bad"


_TOLD: Final = {
    "run_created": lambda e: ("run recorded", "dim"),
    "start_asked": lambda e: ("start asked", "dim"),
    "hurried": lambda e: (stops.countdown(number(e, "grace") or 0.0), "warn"),
    "may_end_at_logout": lambda e: (f"may end when you log out: {text(e, 'why')}", "bad"),
    "start_cut_short": lambda e: ("rankdeck was left before it had asked every node to start", "bad"),
    "start_accepted": lambda e: ("started its supervisor", "dim"),
    "start_called_off": lambda e: ("not asked to start: the launch was called off", "warn"),
    "start_refused": _start_refused,
    "node_missing": lambda e: (f"knows nothing of the run: {text(e, 'why')}", "warn"),
    "link_lost": lambda e: (f"link lost: {text(e, 'message')}", "lost"),
    "link_up": lambda e: ("connected", "dim"),
    "stop_asked": lambda e: (f"stop asked (SIG{text(e, 'signal')})", "warn"),
    "stop_ended": _stop_ended,
    "cause_found": lambda e: (f"cause: {text(e, 'message')}", "bad"),
    "transport_found": _transport_found,
    "fabric_unused": lambda e: (text(e, "message"), "bad"),
    "note": lambda e: (text(e, "message"), "warn"),
    "complete": lambda e: ("everything is in the record", "good"),
    "supervisor_gone": lambda e: ("its supervisor is gone (killed?): ranks run on unguarded", "bad"),
    "supervisor_found": lambda e: ("its supervisor is there", "good"),
    "supervisor_resumed": lambda e: ("its supervisor was gone: another one took over", "warn"),
    "setup_failed": lambda e: (f"setup failed ({integer(e, 'status')}): {text(e, 'line')}", "bad"),
    "launcher_started": lambda e: (f"launcher started, pid {integer(e, 'pid')}", "dim"),
    "launcher_ended": _launcher_ended,
    "rank_started": lambda e: (f"rank {integer(e, 'rank')} started, pid {integer(e, 'pid')}", "text"),
    "rank_ended": _rank_ended,
    "attempt_started": _attempt_started,
    "rank_unknown": lambda e: (f"rank {integer(e, 'rank')} is gone: {text(e, 'why')}", "warn"),
    "start_failed": lambda e: (f"could not start: {text(e, 'message')}", "bad"),
    "ready": lambda e: ("ready to start its ranks", "dim"),
    "waiting": _waiting,
    "all_ready": lambda e: ("all nodes are ready", "dim"),
    "node_unreachable": _unreachable,
    "node_reachable": lambda e: (f"hears of {text(e, 'peer')} again", "good"),
    "stopping": _stopping,
    "finishing": lambda e: ("stopping those whose work is done", "text"),
    "killing": lambda e: ("no grace is left: SIGKILL", "bad"),
    "swept": _swept,
    "record_degraded": lambda e: (f"can't write {text(e, 'what')}", "bad"),
    "node_ended": _node_ended,
}
"""Event -> words and the name of a style. Names that are not here tell people nothing."""
