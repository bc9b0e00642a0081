"""Follows a run until it has ended, showing it through a view, and minds Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, TypeVar

from rankdeck_tui.cli import output
from rankdeck_tui.cli.interrupts import Choice, Interrupts

if TYPE_CHECKING:
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.live import LiveRun
    from rankdeck_runs.states import RunSnapshot
    from rankdeck_runs.stopping import StopResult
    from rankdeck_tui.cli.login_questions import TerminalAsker

T = TypeVar("T")

LOOK_SECONDS = 0.1
"""How long a line may wait before it is printed: seen as at once, and cheap at thousands of log files."""

SETTLE_SECONDS = 15.0
"""After the run's end, how long nothing may arrive before the missing rest of its logs is given up on."""

LOST_SECONDS = 60.0
"""How long nodes that can't be reached are waited for once all the others have ended. Where no node has
ended it is more likely our own connection that is gone: that is waited for without limit."""


UNWRITTEN_SECONDS = 300.0
"""How long a record that can't be written is waited for: the run may have ended meanwhile, unseen."""


class View(Protocol):
    """Shows a run that goes on."""

    def show(self, snapshot: RunSnapshot) -> int:
        """Shows what is new. Returns a number that grows with everything that arrives."""

    def finish(self, snapshot: RunSnapshot) -> None:
        """Shows the rest, once the run has ended."""


class End(Enum):
    """Why following ended."""

    RUN_ENDED = auto()
    NODES_LOST = auto()
    UNWRITTEN = auto()
    DETACHED = auto()
    STOPPED = auto()


def wait_for(future: Future[T], *, between: Callable[[], None] = lambda: None) -> T:
    """The future's result. Ctrl-C gets through, unlike with a plain `result()` that waits without limit.

    Args:
        future: what to wait for.
        between: called ten times a second meanwhile.
    """
    while True:
        try:
            return future.result(timeout=LOOK_SECONDS)
        except NotYet:
            if future.done():
                return future.result()
            between()


def follow(
    engine: Engine, run_id: str, view: View, interrupts: Interrupts, on_interrupt: Callable[[], Choice]
) -> tuple[End, RunSnapshot]:
    """Shows a run until it has ended and all that it wrote is here, or the person leaves it or stops it.

    Args:
        engine: what talks to the nodes.
        run_id: the run.
        view: shows it.
        interrupts: notes Ctrl-C.
        on_interrupt: asked what Ctrl-C means.

    Returns:
        Why following ended, and the run's state then.
    """
    asker = _terminal_asker(engine)
    live = engine.attach(run_id)
    live.watch(range(live.snapshot().world_size))
    version, settling, lost_since, arrived = 0, _Settling(), 0.0, 0
    record = _Record(live)
    network_told = False
    while True:
        version = live.wait(version, LOOK_SECONDS)
        snapshot = live.snapshot()
        if asker is not None and asker.open:
            version = 0
        else:
            arrived = view.show(snapshot)
            if snapshot.fabric_unused and not network_told:
                network_told = True
                output.warning(snapshot.fabric_unused)
        if interrupts.take():
            match asker.while_held(on_interrupt) if asker is not None else on_interrupt():
                case Choice.STOP:
                    _stop(engine, live, view, interrupts)
                    return End.STOPPED, live.snapshot()
                case Choice.DETACH:
                    return End.DETACHED, snapshot
                case Choice.CONTINUE:
                    live.reconnect()
                    output.say("following again")
                    continue
        if snapshot.complete or (snapshot.state.is_terminal and settling.given_up(arrived + live.proven)):
            view.finish(snapshot)
            if not snapshot.complete:
                output.warning(
                    f"the logs of run {run_id} may lack their end: a node can't be reached\n"
                    f"'rankdeck logs {run_id}' tries again"
                )
            return End.RUN_ENDED, snapshot
        if record.given_up():
            view.finish(snapshot)
            return End.UNWRITTEN, snapshot
        if not _waits_for_lost_nodes_alone(snapshot):
            lost_since = 0.0
        elif not lost_since:
            lost_since = time.monotonic()
        elif time.monotonic() - lost_since > LOST_SECONDS:
            view.finish(snapshot)
            return End.NODES_LOST, snapshot


def _terminal_asker(engine: Engine) -> TerminalAsker | None:
    """What asks logins' questions on the terminal, where log lines and other questions are to wait for it."""
    from rankdeck_tui.cli.login_questions import TerminalAsker

    return engine.asker if isinstance(engine.asker, TerminalAsker) else None


def _waits_for_lost_nodes_alone(snapshot: RunSnapshot) -> bool:
    from rankdeck_runs.states import RunState

    return snapshot.state is RunState.LOST and any(node.state.is_terminal for node in snapshot.nodes)


class _Record:
    """Tells when the record can't be written, and when it can again."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._told = ""
        self._since = 0.0

    def given_up(self) -> bool:
        """Whether it could not be written for too long."""
        why = self._live.unwritten
        if why != self._told:
            if not why:
                output.say("the record can be written again")
            elif not self._told:
                self._since = time.monotonic()
                output.warning(
                    f"the record {self._live.path} can't be written: {why}\n"
                    "the run goes on, its nodes keep all it writes: make room, and it is fetched"
                )
            self._told = why
        waited_long = time.monotonic() - self._since > UNWRITTEN_SECONDS
        return bool(why) and (waited_long or not self._live.path.exists())


class _Settling:
    """Notices that nothing has arrived for a while."""

    def __init__(self) -> None:
        self._arrived = -1
        self._since = 0.0

    def given_up(self, arrived: int) -> bool:
        if arrived != self._arrived:
            self._arrived, self._since = arrived, time.monotonic()
        return time.monotonic() - self._since > SETTLE_SECONDS


def _stop(engine: Engine, live: LiveRun, view: View, interrupts: Interrupts) -> None:
    """Stops the run and shows what its ranks still write; Ctrl-C meanwhile kills what is left."""
    output.say(f"stopping run {live.run_id}; Ctrl-C kills what is left")
    forced: list[Future[StopResult]] = []

    def between() -> None:
        view.show(live.snapshot())
        if interrupts.take() and not forced:
            output.say("killing what is left")
            forced.append(engine.stop(live.run_id, force=True))

    result = wait_for(engine.stop(live.run_id), between=between)
    for future in forced:
        wait_for(future)
    view.finish(live.snapshot())
    if not result.gone:
        output.warning(
            f"not everything of run {live.run_id} is gone: 'rankdeck stop {live.run_id}' tries again"
        )
