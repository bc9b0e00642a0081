"""An app to test with: real records, library and screens. Only the engine's network is left out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from textual._context import visible_screen_stack
from textual.pilot import Pilot

from rankdeck_profiles import planner
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.library import Library
from rankdeck_profiles.model import Pool, Profile
from rankdeck_runs.checking import Checked
from rankdeck_runs.home import RunHome
from rankdeck_runs.live import LinkState, LiveRun
from rankdeck_runs.preparing import Prepared
from rankdeck_runs.removing import Cleared
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import UNICODE
from rankdeck_tui.look.ink import in_colour

LIMIT = 60.0
"""Seconds that anything here may take: generous, for the machine may be busy."""


class DeskEngine:
    """The engine's face without nodes: runs are followed by hand, answers of nodes are given by the test."""

    def __init__(self, home: RunHome) -> None:
        self.home = home
        self.followed: dict[str, LiveRun] = {}
        self._lock = threading.Lock()
        self.refusal: RankdeckError | None = None
        """What the nodes answer to the next question, if not a plan."""
        self.remains: tuple[tuple[str, str], ...] = ()
        """What earlier runs left on the nodes."""
        self.silent = False
        """True: questions stay without an answer."""
        self.asked: list[tuple[Profile, Pool, bool]] = []
        self.checks: list[tuple[Profile | None, Pool, Future[Checked]]] = []
        self.launched: list[Prepared] = []
        self.launches: Future[str] = Future()
        self.called_off = 0
        self.stopped: list[tuple[str, bool]] = []
        self.stops: list[Future[Any]] = []
        self.removed: list[tuple[str, Future[Cleared]]] = []

    def attach(self, run_id: str) -> LiveRun:
        """A view of the record; the test feeds it."""
        with self._lock:  # two screens may open one run at the same moment, each in its thread
            if run_id not in self.followed:
                record = self.home.find(run_id)
                live = LiveRun(record.id, record.path, record.fold())
                link = LinkState.ENDED if live.snapshot().complete else LinkState.CONNECTED
                for node in live.snapshot().nodes:
                    live.set_link(node.name, link)
                self.followed[run_id] = live
            return self.followed[run_id]

    def prepare(
        self, profile: Profile, pool: Pool, progress: Callable[[str], None], *, skip_checks: bool = False
    ) -> Future[Prepared]:
        """What the nodes say: one GPU each, or the refusal."""
        self.asked.append((profile, pool, skip_checks))
        progress(f"looking at {len(pool.nodes)} nodes of pool {pool.name}")
        answer: Future[Prepared] = Future()
        if self.silent:
            return answer
        if self.refusal is not None and not skip_checks:
            answer.set_exception(self.refusal)
            return answer
        facts = {
            node.name: NodeFacts(node.name, node.name, "/home/alice", f"10.0.0.{index}", "eth0", 32, 65536,
                                 machine=node.name, leftovers={"SLURM_PROCID": "3"}, free_port=29500)
            for index, node in enumerate(pool.nodes, start=1)
        }  # fmt: skip
        planned = planner.plan(profile, pool, facts)
        answer.set_result(Prepared(profile, pool, planned, facts, remains=self.remains))
        return answer

    def check(self, profile: Profile | None, pool: Pool, progress: Callable[[str], None]) -> Future[Checked]:
        """Note it; the test says what was read, and when."""
        progress(f"looking at {len(pool.nodes)} nodes of pool {pool.name}")
        self.checks.append((profile, pool, Future()))
        return self.checks[-1][2]

    def launch(self, prepared: Prepared, progress: Callable[[str], None]) -> Future[str]:
        """Note it; the test says when it has begun."""
        self.launched.append(prepared)
        return self.launches

    def call_off(self, launching: Future[str]) -> None:
        """Note it; the test says how it ended."""
        assert launching is self.launches
        self.called_off += 1

    def stop(self, run_id: str, grace: Any = None, force: bool = False, progress: Any = None) -> Future[Any]:
        """Note it; the test says how it ended."""
        self.stopped.append((run_id, force))
        self.progress = progress
        self.stops.append(Future())
        return self.stops[-1]

    def remove(self, run_id: str) -> Future[Cleared]:
        """Note it; the test says how it ended."""
        self.removed.append((run_id, Future()))
        return self.removed[-1][1]


def deck(
    path: Path, open_run: str | None = None, *, now: float | None = None, look: Look | None = None
) -> RankdeckApp:
    """The app over `path/home` and `path/config`, with a `DeskEngine`."""
    home = RunHome(path / "home")
    library = Library(path / "config", path / "work")
    clock = time.time if now is None else lambda: now
    look = look or Look(in_colour(), UNICODE)
    return RankdeckApp(DeskEngine(home), home, library, open_run, look=look, now=clock)  # type: ignore[arg-type]


def engine_of(app: RankdeckApp) -> DeskEngine:
    assert isinstance(app.engine, DeskEngine)
    return app.engine


def rows(app: RankdeckApp) -> list[str]:
    """The screen as rows of text."""
    # A dialog that is drawn here first keeps what it is drawn upon: it must be what the app draws it upon.
    visible_screen_stack.set(app._background_screens)
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def text(app: RankdeckApp) -> str:
    """The screen as one text."""
    return "\n".join(rows(app))


async def until(pilot: Pilot[None], condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until a condition holds; fails with the screen's text."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit} s; the screen:\n{text(pilot.app)}")  # type: ignore[arg-type]
        await asyncio.sleep(0.05)


async def sees(pilot: Pilot[None], *wanted: str) -> None:
    """Wait until the screen holds all of these texts."""
    await until(pilot, lambda: all(entry in text(pilot.app) for entry in wanted))  # type: ignore[arg-type]
