"""A launch is called off with Esc: asked first, then told once nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from rankdeck_runs.errors import CalledOffError
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.screens.composer import ComposerScreen
from tui.deck import deck, engine_of, sees, text, until
from tui.records import happen, started, write_run

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 10)])


async def launch(pilot: Pilot[None]) -> None:
    await sees(pilot, "resnet")
    await pilot.press("tab", "j", "enter", "S")
    await until(pilot, lambda: engine_of(pilot.app).launched)  # type: ignore[arg-type]


def told(app: RankdeckApp) -> list[str]:
    """What notices say: in narrow windows their lines are broken."""
    return [notice.message for notice in app._notifications]


@SIZES
async def test_it_is_asked_then_told(place: Path, size: tuple[int, int]) -> None:
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=size, notifications=True) as pilot:
        await launch(pilot)
        await pilot.press("escape")
        await sees(pilot, "Call the launch off?", "Call it off (y)")
        await pilot.press("enter")  # Cancel has the focus
        await until(pilot, lambda: isinstance(app.screen, ComposerScreen))
        assert engine.called_off == 0
        await pilot.press("escape")
        await sees(pilot, "Call the launch off?")
        await pilot.press("y")
        await until(pilot, lambda: engine.called_off == 1)
        await until(pilot, lambda: isinstance(app.screen, ComposerScreen))
        await pilot.press("escape")
        await until(pilot, lambda: any("being called off" in said for said in told(app)))
        engine.launches.set_exception(CalledOffError("r1", ()))
        await until(pilot, lambda: any("nothing of run r1 is left" in said for said in told(app)))
        assert isinstance(app.screen, ComposerScreen)
        assert not app.screen.is_launching


async def test_what_is_left_all_the_same_is_told(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await launch(pilot)
        await pilot.press("escape")
        await sees(pilot, "Call the launch off?")
        await pilot.press("y")
        await until(pilot, lambda: engine.called_off == 1)
        engine.launches.set_exception(CalledOffError("r1", [("n2", "could not be told to stop: no route")]))
        await sees(
            pilot, "not all of it is gone", "n2: could not be told to stop: no route", "rankdeck stop r1"
        )


async def test_a_launch_that_ends_while_it_is_asked_opens_after_the_answer(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await launch(pilot)
        await pilot.press("escape")
        await sees(pilot, "Call the launch off?")
        engine.launches.set_result(record.id)
        await pilot.pause(0.6)
        assert "Call the launch off?" in text(app)
        await pilot.press("y")
        await sees(pilot, "R running 4")
        assert any("x stops it" in said for said in told(app))


async def test_while_nodes_are_asked_escape_only_takes_the_launch_back(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    engine.silent = True
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await until(pilot, lambda: engine.asked)
        await pilot.press("S")
        await sees(pilot, "launches when checked")
        await pilot.press("escape")
        await sees(pilot, "nothing was started")
        assert "launches when checked" not in text(app)
        assert isinstance(app.screen, ComposerScreen)
        assert engine.launched == []
