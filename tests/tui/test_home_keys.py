"""The line of keys on the home screen: what acts in the pane, and on the row, that has the focus."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_tui.app import RankdeckApp
from tui.deck import deck, rows, sees, until
from tui.records import BEGIN, ended, happen, started, write_run


def keys(app: RankdeckApp) -> str:
    return (rows(app) or [""])[-1]


async def test_each_pane_shows_the_keys_that_act_in_it(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place, now=BEGIN + 125)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "R running", "h100")
        await until(pilot, lambda: "x stop" in keys(app))
        assert keys(app).split("   ")[0].strip() == (
            "enter open  n new run  R launch again  c change it  x stop  / filter"
        )
        await pilot.press("tab")
        await until(pilot, lambda: "enter compose  n new profile  e edit  p preflight  / filter" in keys(app))
        await pilot.press("j", "j")  # a file that can't be used
        await until(pilot, lambda: "e edit" not in keys(app))
        assert "n new profile  p preflight  / filter" in keys(app)
        await pilot.press("tab")
        await until(pilot, lambda: "enter compose  n new pool  e edit  p preflight  / filter" in keys(app))
        await pilot.press("j")  # this machine, which has no file
        await until(pilot, lambda: "enter compose  n new pool  p preflight  / filter" in keys(app))
        assert "q quit" in keys(app)
        assert "? help" in keys(app)


async def test_a_run_that_ends_can_no_longer_be_stopped(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place, now=BEGIN + 125)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "x stop" in keys(app))
        live = app.engine.attach(record.id)
        for event in ended(record):
            live.apply(event)
        await until(pilot, lambda: "x stop" not in keys(app))
        assert "R launch again" in keys(app)


async def test_without_any_run_nothing_is_offered_for_one(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "No run yet", "resnet")
        await until(pilot, lambda: "n new run" in keys(app))
        assert "launch again" not in keys(app)
        assert "open" not in keys(app)


async def test_a_low_screen_shows_runs_and_keys(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place, now=BEGIN + 125)
    async with app.run_test(size=(40, 10)) as pilot:
        await sees(pilot, "R running", "bert", "h100", "? help")
        await pilot.press("tab")
        await sees(pilot, "R running", "bert", "? help")


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_list_says_that_a_node_of_a_run_is_lost(place: Path, size: tuple[int, int]) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place, now=BEGIN + 125)
    live = app.engine.attach(record.id)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "R running", "resnet-aaaa")
        live.apply({"ev": "link_lost", "t": BEGIN + 100, "node": "n2", "message": "connection reset by peer"})
        await sees(pilot, "● R node lost", "can't be reached: n2")
