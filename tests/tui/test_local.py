"""From profile to the end of a real run on this machine, and back from its record: no part is left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankdeck_profiles.library import Library
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
from rankdeck_tui.app import RankdeckApp
from tui.deck import sees, text, until

PROGRAM = """
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
for step in range(int(sys.argv[1])):
    print("step", step, flush=True)
    time.sleep(0.2)
"""


@pytest.fixture
def app(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RankdeckApp]:
    monkeypatch.setenv("RANKDECK_NODE_DIR", str(place / "node"))
    (place / "work" / "program.py").write_text(PROGRAM)
    (place / "config" / "pools" / "here.toml").write_text(
        'backend = "local"\nnodes = ["127.0.0.1", "127.0.0.2"]\n'
    )
    (place / "config" / "profiles" / "a-short.toml").write_text(
        f'framework = "pytorch"\nscript = "program.py"\nargs = ["10000"]\nworkdir = "{place}/work"\n'
        f'python = "{sys.executable}"\npool = "here"\nprocs_per_node = 1\n[stop]\ngrace = "5s"\n'
    )
    home = RunHome(place / "home")
    engine = Engine(home)
    try:
        yield RankdeckApp(engine, home, Library(place / "config", place / "work"))
    finally:
        for run in home.list():
            engine.stop(run.id, force=True).result(60)
        engine.close()


async def test_a_run_from_profile_to_stop_and_again(app: RankdeckApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "a-short")
        await pilot.press("tab", "enter")
        await sees(pilot, "ready", "2 ranks on 2 nodes")
        await pilot.press("S")
        await sees(pilot, "R running 2", "rank 0 of 2", "rank 1 of 2")
        await sees(pilot, "step 3", "2 links up", "cpu")
        await pilot.press("x")
        await sees(pilot, "Cancel")
        await pilot.press("tab", "enter")
        await sees(pilot, "Nothing of the run is left")
        await pilot.press("escape")
        await sees(pilot, "T stopped 2", "record complete")
        await pilot.press("escape")
        await sees(pilot, "Profiles", "T stopped")
        await pilot.press("R")
        await sees(pilot, "R running 2", "rank 1 of 2")
        await pilot.press("escape")
        await until(pilot, lambda: "R running" in text(app) and "T stopped" in text(app))
    assert sorted(run.profile for run in app.home.list()) == ["a-short", "a-short"]
