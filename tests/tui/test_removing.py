"""A run is removed from the home screen: asked first, and only one that has ended."""

from __future__ import annotations

from pathlib import Path

from rankdeck_runs.record import Record
from rankdeck_runs.removing import Cleared, RemoveError
from rankdeck_tui.app import RankdeckApp
from tui.deck import deck, engine_of, rows, sees, text, until
from tui.records import BEGIN, ended, happen, started, write_run

SIZE = (120, 40)


def keys(app: RankdeckApp) -> str:
    return (rows(app) or [""])[-1]


def over(place: Path) -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, [*started(record), *ended(record)])
    return record


async def test_removing_asks_and_tells_what_stayed_on_a_node(place: Path) -> None:
    record = over(place)
    app = deck(place, now=BEGIN + 125)
    engine = engine_of(app)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(pilot, lambda: "D remove" in keys(app))
        await pilot.press("D")
        await sees(pilot, f"Remove {record.id}?", "its folders on 2 nodes", "This can't be undone.")
        await pilot.press("enter")
        await until(pilot, lambda: "This can't be undone." not in text(app))
        assert engine.removed == [], "Cancel has the focus"
        await pilot.press("D", "y")
        await until(pilot, lambda: len(engine.removed) == 1)
        run_id, answer = engine.removed[0]
        assert run_id == record.id
        answer.set_result(Cleared({"n1": 12}, {"n2": "connect: timed out; /var/tmp/x stays there"}))
        await sees(pilot, "was removed here, but", "n2: connect: timed out; /var/tmp/x stays there")


async def test_a_refusal_is_told(place: Path) -> None:
    over(place)
    app = deck(place, now=BEGIN + 125)
    engine = engine_of(app)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(pilot, lambda: "D remove" in keys(app))
        await pilot.press("D", "y")
        await until(pilot, lambda: engine.removed)
        engine.removed[0][1].set_exception(RemoveError("n2 says no", "rankdeck stop ends it"))
        await sees(pilot, "n2 says no", "rankdeck stop ends it")


async def test_a_run_that_goes_on_is_not_removed(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    app = deck(place, now=BEGIN + 125)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "x stop" in keys(app))
        assert "D remove" not in keys(app)
        await pilot.press("D")
        await until(pilot, lambda: any("is not removed" in note.message for note in app._notifications))
        assert not app.screen.is_modal
        assert engine_of(app).removed == []


async def test_what_its_logs_lack_is_told_before(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    events = [{**e, "out_bytes": 1204} if e.get("rank") == 2 else e for e in ended(record)]
    happen(record, [*started(record), *events[:-1]])
    app = deck(place, now=BEGIN + 125)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "D remove" in keys(app))
        await pilot.press("D")
        await sees(pilot, "1,204 bytes missing on n2")
