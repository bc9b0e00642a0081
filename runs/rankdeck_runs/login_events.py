"""How the login side's own events change what is known of a run. `events.py` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.failures import Failure
from rankdeck_runs.folded import Folded, FoldedNode
from rankdeck_runs.states import NodeState
from rankdeck_runs.transport import Fabric, Transport
from rankdeck_runs.values import integer, number, objects, strings, text

Event = Mapping[str, Any]


def _run_created(state: Folded, event: Event) -> None:
    state.profile, state.pool, state.backend = (text(event, key) for key in ("profile", "pool", "backend"))
    state.framework = text(event, "framework") or state.framework
    state.active_test = event.get("active_test") is True
    state.created = number(event, "t")
    state.fabric = Fabric.from_json(event.get("fabric"))


def _stop_asked(state: Folded, event: Event) -> None:
    state.stopping = True
    if text(event, "why") == "asked" and state.stop_asked is None:
        state.stop_asked = number(event, "t")


def _stop_ended(state: Folded, event: Event) -> None:
    if event.get("gone") is not True:
        state.stopping = False
    state.notes.extend(
        f"{text(left, 'node')}: process {integer(left, 'pid')} could not be ended: {text(left, 'cmd')}"
        + (f" ({text(left, 'why')})" if text(left, "why") else "")
        for left in objects(event, "left")
    )


def _cause_found(state: Folded, event: Event) -> None:
    found = Cause.from_json(event)
    if found is not None:
        about = event.get("about")
        state.found = found
        state.found_about = _about(about) if isinstance(about, dict) else None


def _about(about: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return text(about, "node"), text(about, "kind"), integer(about, "rank")


def _note(state: Folded, event: Event) -> None:
    node = text(event, "node")
    state.notes.append(f"{node}: {text(event, 'message')}" if node else text(event, "message"))


def _transport_found(state: Folded, event: Event) -> None:
    rank = state.ranks.get(integer(event, "rank") or 0)
    if rank is not None:
        told = (Transport.from_json(shape) for shape in objects(event, "transports"))
        state.ranks[rank.rank] = replace(rank, transports=tuple(each for each in told if each is not None))


def _fabric_unused(state: Folded, event: Event) -> None:
    state.fabric_unused = state.fabric_unused or text(event, "message")


def _complete(state: Folded, event: Event) -> None:
    state.complete = True


def _start_asked(state: Folded, node: FoldedNode, event: Event) -> None:
    node.asked = True
    node.copy = replace(node.copy, shared=event.get("shared") is True)
    if state.start_asked is None:
        state.start_asked = number(event, "t")


def _start_accepted(state: Folded, node: FoldedNode, event: Event) -> None:
    node.asked = True
    node.missing = None


def _start_refused(state: Folded, node: FoldedNode, event: Event) -> None:
    if node.refused is not None:
        return
    node.refused = text(event, "message") or "the start failed"
    # Stamped by our own clock: no skew to take out.
    state.failures.append(Failure(number(event, "t") or 0.0, node.name, CauseKind.NODE, node.refused))


def _start_called_off(state: Folded, node: FoldedNode, event: Event) -> None:
    node.called_off = True
    node.ended, node.ended_at = NodeState.STOPPED, number(event, "t")


def _start_cut_short(state: Folded, event: Event) -> None:
    for node in state.nodes.values():
        if not node.asked and node.refused is None:
            node.refused = "its start was cut short: rankdeck was left before this node was asked"
            state.failures.append(Failure(number(event, "t") or 0.0, node.name, CauseKind.NODE, node.refused))


def _node_missing(state: Folded, node: FoldedNode, event: Event) -> None:
    node.copy = replace(node.copy, gone=text(event, "why"))
    if node.ended is not None or node.refused is not None:
        return
    node.missing = text(event, "why") or "the node knows nothing of this run"
    if event.get("started") is False:
        # The others wait for ranks that will never come.
        state.failures.append(Failure(number(event, "t") or 0.0, node.name, CauseKind.NODE, node.missing))


def _node_fetched(state: Folded, node: FoldedNode, event: Event) -> None:
    told = event.get("files")
    files = told if isinstance(told, dict) else {}
    sizes = [file[0] for file in files.values() if isinstance(file, list) and file and type(file[0]) is int]
    unverified = tuple(strings(event, "unverified"))
    node.copy = replace(
        node.copy,
        fetched=True,
        files=sum(size > 0 for size in sizes),
        size=sum(sizes),
        unverified=unverified,
        verified=isinstance(told, dict) and not unverified,
    )


def _node_cleared(state: Folded, node: FoldedNode, event: Event) -> None:
    node.copy = replace(node.copy, cleared=True)


def _link_up(state: Folded, node: FoldedNode, event: Event) -> None:
    node.link_lost = None
    node.skew = number(event, "skew") or 0.0


def _link_lost(state: Folded, node: FoldedNode, event: Event) -> None:
    node.link_lost = text(event, "message") or "the connection is gone"


def _supervisor_gone(state: Folded, node: FoldedNode, event: Event) -> None:
    node.unguarded = True


def _supervisor_found(state: Folded, node: FoldedNode, event: Event) -> None:
    node.unguarded = False


OF_RUN: Mapping[str, Callable[[Folded, Event], None]] = {
    "run_created": _run_created,
    "start_cut_short": _start_cut_short,
    "stop_asked": _stop_asked,
    "stop_ended": _stop_ended,
    "cause_found": _cause_found,
    "note": _note,
    "transport_found": _transport_found,
    "fabric_unused": _fabric_unused,
    "complete": _complete,
}

OF_NODE: Mapping[str, Callable[[Folded, FoldedNode, Event], None]] = {
    "start_asked": _start_asked,
    "start_accepted": _start_accepted,
    "start_refused": _start_refused,
    "start_called_off": _start_called_off,
    "node_missing": _node_missing,
    "node_fetched": _node_fetched,
    "node_cleared": _node_cleared,
    "link_up": _link_up,
    "link_lost": _link_lost,
    "supervisor_gone": _supervisor_gone,
    "supervisor_found": _supervisor_found,
}
