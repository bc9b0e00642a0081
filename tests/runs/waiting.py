"""Waiting for runs, never without a limit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from rankdeck_profiles.model import Pool, Profile
from rankdeck_runs.engine import Engine
from rankdeck_runs.live import LiveRun
from rankdeck_runs.states import RunSnapshot

LIMIT = 60.0
"""Seconds for anything that a test waits for: the machine may be slow and busy."""


def launched(engine: Engine, profile: Profile, pool: Pool) -> str:
    """The id of a run that was prepared and launched."""
    return engine.launch(engine.prepare(profile, pool).result(LIMIT)).result(LIMIT)


def wait_for(live: LiveRun, condition: Callable[[RunSnapshot], bool], what: str) -> RunSnapshot:
    """The first snapshot that meets the condition."""
    deadline = time.monotonic() + LIMIT
    version = 0
    while time.monotonic() < deadline:
        version = live.wait(version, 1.0)
        snapshot = live.snapshot()
        if condition(snapshot):
            return snapshot
    raise AssertionError(f"not in {LIMIT} s: {what}; it is {json.dumps(live.snapshot().to_json(), indent=1)}")


def finished(live: LiveRun) -> RunSnapshot:
    """The snapshot of a run that has ended with all of it in the record."""
    return wait_for(live, lambda snapshot: snapshot.complete, "complete")
