"""How a node's events change what is known of a run. docs/agent-protocol.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankdeck_runs import known_lines
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.failures import Failure, Named
from rankdeck_runs.folded import Folded, FoldedNode
from rankdeck_runs.states import NodeState, RankState, RankStatus, SweptProcess
from rankdeck_runs.values import integer, integers, number, objects, text

Event = Mapping[str, Any]

_ENDED_STATES = {
    "succeeded": NodeState.SUCCEEDED,
    "failed": NodeState.FAILED,
    "stopped": NodeState.STOPPED,
}
SETUP_LINES_SHOWN = 20


def _supervisor_started(state: Folded, node: FoldedNode, event: Event) -> None:
    node.missing = None


def _supervisor_resumed(state: Folded, node: FoldedNode, event: Event) -> None:
    node.unguarded = False
    note = (
        f"{node.name}: its supervisor was gone (killed, or the node was restarted), and another one took"
        " over: what ended in between is known from the ranks' shims alone"
    )
    if note not in state.notes:
        state.notes.append(note)


def _setup_failed(state: Folded, node: FoldedNode, event: Event) -> None:
    message = f"setup line {text(event, 'line')!r} ended with status {integer(event, 'status')}"
    output = [line for line in text(event, "output").splitlines() if line.strip()]
    state.fail(node, event, CauseKind.SETUP, message, evidence=tuple(output[-SETUP_LINES_SHOWN:]))


def _launcher_started(state: Folded, node: FoldedNode, event: Event) -> None:
    key = node.name, integer(event, "process") or 0
    launcher = state.launchers.get(key)
    if launcher is not None:
        state.launchers[key] = replace(launcher, pid=integer(event, "pid"))


def _launcher_ended(state: Folded, node: FoldedNode, event: Event) -> None:
    key = node.name, integer(event, "process") or 0
    launcher = state.launchers.get(key)
    if launcher is None:
        return
    code, signal, message = integer(event, "exit_code"), text(event, "signal"), text(event, "message")
    state.launchers[key] = replace(
        launcher, exit_code=code, signal=signal or None, ended=True, message=message
    )
    node.gave_up = node.gave_up or bool(code or signal)
    if (code or signal) and not node.told_to_stop:
        how = f"was ended by signal {signal}" if signal else f"ended with status {code}"
        # The last line of its log comes with it. Whom a signal ends says nothing of it any more.
        told = message and not signal and known_lines.is_told(message)
        state.fail(node, event, CauseKind.LAUNCHER, message if told else f"the launcher {how}")


def _rank_started(state: Folded, node: FoldedNode, event: Event) -> None:
    rank = _rank(state, node, event)
    if rank is None:
        return
    local, t = integer(event, "local_rank"), number(event, "t")
    if t is not None:
        state.first_started = t if state.first_started is None else min(t, state.first_started)
    status = replace(
        rank,
        state=rank.state if rank.state.is_terminal else RankState.RUNNING,
        pid=integer(event, "pid"),
        started=t,
        local_rank=rank.local_rank if local is None else local,
    )
    state.put(status)


def _rank_ended(state: Folded, node: FoldedNode, event: Event) -> None:
    rank = _rank(state, node, event)
    if rank is None:
        return
    signal = text(event, "signal") or None
    again = event.get("may_restart") is True
    code = None if signal else integer(event, "exit_code")
    finished = event.get("finished") is True  # it served ranks that have all ended well
    asked = event.get("asked") is True or (again and signal == "TERM")  # by its launcher, to start it again
    ended = RankState.SUCCEEDED if finished else _ended_state(code, signal, asked)
    status = replace(
        rank,
        state=ended,
        exit_code=code,
        signal=signal,
        ended=number(event, "t"),
        out_bytes=integer(event, "out_bytes"),
        err_bytes=integer(event, "err_bytes"),
        why="" if finished else _who_killed(event, signal),
    )
    state.put(status)
    if ended is RankState.FAILED:
        kind = CauseKind.SIGNAL if signal else CauseKind.EXIT
        how = f"was ended by signal {signal}" if signal else f"ended with status {code}"
        what = {"rank": rank.rank, "signal": signal or "", "attempt": rank.attempt, "may_restart": again}
        state.fail(node, event, kind, f"rank {rank.rank} {how}", code=code, seen=_seen(event), **what)


def _who_killed(event: Event, signal: str | None) -> str:
    """Who sent a rank the signal that nobody can catch, as far as that is known."""
    if signal != "KILL":
        return ""
    if event.get("asked") is True:
        return "SIGKILL by rankdeck: its grace was over, or the stop was forced"
    if any(what == "oom" for what, _ in _seen(event)):
        return "SIGKILL by the kernel: out of memory"
    return "SIGKILL, sender unknown"


def _seen(event: Event) -> tuple[tuple[str, str], ...]:
    """What the node saw of a rank's end beside its status: the OOM killer, its kernel's log, /dev/shm."""
    return tuple((text(each, "what"), text(each, "text")) for each in objects(event, "seen"))


def _ended_state(code: int | None, signal: str | None, asked: bool) -> RankState:
    if asked:
        return RankState.STOPPED
    if code == 0:
        return RankState.SUCCEEDED
    return RankState.UNKNOWN if code is None and signal is None else RankState.FAILED


_RESTARTED = "the node was restarted"
"""How the agent's reason begins (resume.py) where the boot id is another one."""
_RESTART = "it was restarted while its ranks ran: power, a crash of its kernel, or an administrator"


def _rank_unknown(state: Folded, node: FoldedNode, event: Event) -> None:
    rank = _rank(state, node, event)
    if rank is not None and not rank.state.is_terminal:
        why, t = text(event, "why"), number(event, "t")
        state.put(replace(rank, state=RankState.UNKNOWN, ended=t, why=why))
        if why.startswith(_RESTARTED):
            if all((each.node, each.message) != (node.name, _RESTART) for each in state.failures):
                state.fail(node, event, CauseKind.NODE, _RESTART)
            return
        said = f"rank {rank.rank} is gone, and its exit status is not to be had: {why}"
        again = event.get("may_restart") is True
        what = {"rank": rank.rank, "attempt": rank.attempt, "may_restart": again}
        state.fail(node, event, CauseKind.UNKNOWN, said, seen=_seen(event), **what)


def _start_failed(state: Folded, node: FoldedNode, event: Event) -> None:
    message = text(event, "message") or "the program could not be started"
    rank = _rank(state, node, event)
    if rank is None:
        state.fail(node, event, CauseKind.START, message)
        return
    state.put(replace(rank, state=RankState.FAILED, why=message, ended=number(event, "t")))
    again = event.get("may_restart") is True
    what = {"rank": rank.rank, "attempt": rank.attempt, "may_restart": again}
    state.fail(node, event, CauseKind.START, message, **what)


def _attempt_started(state: Folded, node: FoldedNode, event: Event) -> None:
    state.reach(integer(event, "attempt") or 1)


def _finishing(state: Folded, node: FoldedNode, event: Event) -> None:
    for served in integers(event, "ranks"):
        rank = state.ranks.get(served)
        if rank is not None and not rank.state.is_terminal:
            state.put(replace(rank, why="being stopped: those it serves have ended"))


def _stopping(state: Folded, node: FoldedNode, event: Event) -> None:
    node.stopping = True
    _hurried(state, node, event)
    # An mpirun may have killed what it started before its own end is seen: that is its failure, still.
    node.told_to_stop = node.told_to_stop or text(event, "why") != "launcher_ended"
    why, rank = text(event, "why"), integer(event, "rank")
    about = state.nodes.get(text(event, "peer")) or node
    if node.node_rank == 0 and why != "asked":
        state.named = Named(about.name, rank)
    if why in ("not_ready", "node_lost"):
        message = text(event, "message").removeprefix(f"{about.name}: ")
        state.failures.append(Failure(number(event, "t") or 0.0, about.name, CauseKind.NODE, message))


def _hurried(state: Folded, node: FoldedNode, event: Event) -> None:
    t, grace = number(event, "t"), number(event, "grace")
    if t is not None and grace is not None:
        node.kill_at = t + grace
        node.forced = grace == 0


def _waiting(state: Folded, node: FoldedNode, event: Event) -> None:
    since = (number(event, "t") or 0.0) - (number(event, "seconds") or 0.0)
    awaited = {text(peer, "peer"): text(peer, "what") for peer in objects(event, "on")}
    for other in state.nodes.values():
        other.awaited = (awaited[other.name], since) if other.name in awaited else None


def _all_ready(state: Folded, node: FoldedNode, event: Event) -> None:
    for other in state.nodes.values():
        other.awaited = None


def _node_unreachable(state: Folded, node: FoldedNode, event: Event) -> None:
    peer = state.nodes.get(text(event, "peer"))
    if peer is not None:
        limit = number(event, "limit") or 0.0
        peer.unheard[node.name] = (
            f"{node.name} hears nothing of it: the run goes on without it for {limit:g} s"
        )


def _node_reachable(state: Folded, node: FoldedNode, event: Event) -> None:
    peer = state.nodes.get(text(event, "peer"))
    if peer is not None:
        peer.unheard.pop(node.name, None)


def _killing(state: Folded, node: FoldedNode, event: Event) -> None:
    pids = ", ".join(str(pid) for pid in integers(event, "pids"))
    when = "at once" if node.forced else "at the end of the grace"
    state.notes.append(f"{node.name}: SIGKILL {when} for {pids}")


def _swept(state: Folded, node: FoldedNode, event: Event) -> None:
    for process in objects(event, "processes"):
        pid = integer(process, "pid")
        if pid is not None:
            state.swept[node.name, pid] = SweptProcess(
                node.name, pid, text(process, "cmd"), integer(process, "rank")
            )


def _record_degraded(state: Folded, node: FoldedNode, event: Event) -> None:
    state.notes.append(f"{node.name}: {text(event, 'what')}")


def _may_end_at_logout(state: Folded, node: FoldedNode, event: Event) -> None:
    note = f"{node.name}: the run may end when you log out: {text(event, 'why')}"
    if note not in state.notes:
        state.notes.append(note)


def _node_ended(state: Folded, node: FoldedNode, event: Event) -> None:
    node.ended = _ENDED_STATES.get(text(event, "state"), NodeState.UNKNOWN)
    node.ended_at = number(event, "t")


def _rank(state: Folded, node: FoldedNode, event: Event) -> RankStatus | None:
    """The rank that an event of the node speaks of, in the event's attempt."""
    number, attempt = integer(event, "rank"), integer(event, "attempt") or 1
    rank = None if number is None else state.rank(number, attempt)
    if rank is not None and node.dealt and not rank.node:
        return replace(rank, node=node.name)
    return rank


HANDLERS: Mapping[str, Callable[[Folded, FoldedNode, Event], None]] = {
    "supervisor_started": _supervisor_started,
    "supervisor_resumed": _supervisor_resumed,
    "setup_failed": _setup_failed,
    "launcher_started": _launcher_started,
    "launcher_ended": _launcher_ended,
    "rank_started": _rank_started,
    "rank_ended": _rank_ended,
    "rank_unknown": _rank_unknown,
    "start_failed": _start_failed,
    "attempt_started": _attempt_started,
    "finishing": _finishing,
    "stopping": _stopping,
    "hurried": _hurried,
    "waiting": _waiting,
    "all_ready": _all_ready,
    "node_unreachable": _node_unreachable,
    "node_reachable": _node_reachable,
    "killing": _killing,
    "swept": _swept,
    "record_degraded": _record_degraded,
    "may_end_at_logout": _may_end_at_logout,
    "node_ended": _node_ended,
}
