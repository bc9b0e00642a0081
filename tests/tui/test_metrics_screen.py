"""The plots of a run's metrics: drawn right, live, and within what the terminal can show."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from rankdeck_runs.metrics.series import Series
from rankdeck_runs.record import Record
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import ASCII, UNICODE
from rankdeck_tui.look.ink import in_colour, without_colour
from rankdeck_tui.plots import columns, plot
from rankdeck_tui.plots.gather import order
from rankdeck_tui.screens.metrics import MetricsScreen
from rankdeck_tui.screens.run import RunScreen
from rankdeck_tui.widgets.metric_plots import MetricPlots
from tui import goldens
from tui.deck import deck, sees, text, until
from tui.records import BEGIN, happen, log, started, write_run

NOW = BEGIN + 125


def trained(place: Path, steps: int = 60, *, nan: bool = False) -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    for rank in range(4):
        for step in range(steps):
            log(record, rank, line(rank, step))
    if nan:
        log(record, 2, b"step 61 loss nan\n")
    return record


def line(rank: int, step: int) -> bytes:
    loss = 2 * math.exp(-step / 20) + 0.1 * rank
    return b"epoch 0 step %d loss %.4f lr 1e-4 samples/s %d\n" % (step, loss, 300 + 10 * rank)


def series(*values: float, first: int = 0) -> Series:
    made = Series()
    for step, value in enumerate(values, start=first):
        made.add(value, step)
    return made


def rows_of(shown: columns.Columns | None, width: int, height: int, look: Look) -> list[str]:
    return [strip.text for strip in plot.paint(shown, width, height, look, "step")]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids="{0[0]}x{0[1]}".format)
async def test_the_plots(place: Path, size: tuple[int, int]) -> None:
    app = deck(place, trained(place).id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "loss  0.2547", "best 0.1047 at 59", "step 0")
        await goldens.check(app, f"metrics-{size[0]}x{size[1]}", place)


async def test_without_unicode_and_colour_the_plots_are_ascii(place: Path) -> None:
    app = deck(place, trained(place).id, now=NOW, look=Look(without_colour(), ASCII))
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "best 0.1047 at 59", "step 0")
        assert text(app).isascii()
        await goldens.check(app, "metrics-ascii-80x24", place)


async def test_keys_choose_metric_rank_and_one_plot(place: Path) -> None:
    app = deck(place, trained(place).id, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "1/4 loss")
        await pilot.press("tab", "enter")
        await sees(pilot, "lr  0.0001")
        await until(pilot, lambda: "loss" not in text(app))
        await pilot.press("enter", "left", ">")
        await sees(pilot, "rank 0 0.1047", "lr")
        await pilot.press("<")
        await sees(pilot, "rank 3 0.4047")
        await pilot.press("a")
        await until(pilot, lambda: "rank 3" not in text(app))
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)


async def test_lines_that_come_are_drawn(place: Path) -> None:
    record = trained(place, 10)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "best 1.275 at 9")
        for rank in range(4):
            log(record, rank, line(rank, 10))
        await sees(pilot, "best 1.213 at 10")


async def test_a_run_without_metrics_says_how_to_get_some_and_shows_those_that_come(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    log(record, 0, b"loading\n")
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "No metrics yet", "[metrics]", "loss = ")
        await pilot.press("enter", "tab", ">", "a")
        log(record, 0, b"step 1 loss 0.5\nstep 2 loss 0.25\n")
        await sees(pilot, "best 0.25 at 2")
        assert isinstance(app.screen, MetricsScreen)


async def test_a_loss_that_is_no_number_is_the_news(place: Path) -> None:
    app = deck(place, trained(place, nan=True).id, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "nan", "on 1 of 4 ranks since 61")


async def test_a_chosen_metric_stays_chosen_when_others_come_up(place: Path) -> None:
    record = trained(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "FOLLOW")
        await pilot.press("p")
        await sees(pilot, "1/4 loss")
        await pilot.press("tab", "tab", "enter")
        await sees(pilot, "3/4 samples/s")
        log(record, 0, b"step 61 loss 1 acc 5\nstep 62 loss 1 acc 6\n")
        await until(pilot, lambda: len(app.screen.query_one(MetricPlots).names) == 5)
        await sees(pilot, "/5 samples/s")


def test_the_mean_and_the_spread_of_ranks() -> None:
    shown = columns.of({0: series(1, 2, 3), 1: series(3, 4, 5), 2: series(2, 6)}, 3, rank=2)
    assert shown is not None
    assert (shown.first, shown.last) == (0, 2)
    assert shown.mean == (2, 4, 4)
    assert (shown.low, shown.high) == ((1, 2, 3), (3, 6, 5))
    assert shown.rank == (2, 6, None)


def test_those_ahead_of_the_others_are_not_the_mean() -> None:
    shown = columns.of({0: series(1, 1, 1), 1: series(3, 3)}, 3, rank=0)
    assert shown is not None
    assert shown.mean == (2, 2, None)
    assert shown.rank == (1, 1, 1)


def test_between_rare_values_a_line_is_drawn() -> None:
    one = Series()
    one.add(0, 0)
    one.add(10, 100)
    shown = columns.of({0: one}, 11)
    assert shown is not None
    assert shown.mean == tuple(map(float, range(11)))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize(
    "values", [[], [1.0], [5.0] * 3, [math.nan], [1e308, -1e308], [1e-300, 2e-300], [0.0, -1.0], [1e300, 0.0]]
)
def test_any_values_fit_any_size(values: list[float], glyphs: object) -> None:
    look = Look(in_colour(), glyphs)  # type: ignore[arg-type]
    for width, height in ((2, 1), (14, 3), (40, 8), (118, 38)):
        shown = columns.of({0: series(*values)}, plot.dots_across(width, look), rank=0)
        rows = plot.paint(shown, width, height, look, "step")
        assert len(rows) <= height
        assert {strip.cell_length for strip in rows} == {width}


def test_a_falling_curve_falls() -> None:
    look = Look(in_colour(), ASCII)
    rows = rows_of(columns.of({0: series(*range(20, 0, -1))}, plot.dots_across(30, look)), 30, 11, look)
    places = [row.find("*") for row in rows[:-1]]
    assert places == sorted(places)
    assert rows[0].split()[0] == "20"
    assert rows[9].split()[0] == "1"
    assert rows[-1].split() == ["step", "0", "19"]


def test_the_loss_comes_first_and_single_values_last() -> None:
    names = ["epoch", "lr", "eval_loss", "loss", "best_acc"]
    shown = order(names, frozenset({"best_acc"}))
    assert shown == ("loss", "lr", "eval_loss", "epoch", "best_acc")


def test_a_big_run_s_picture_costs_a_moment() -> None:
    many = {rank: series(*([1.0, 2.0] * 256)) for rank in range(64)}
    began = time.process_time()
    columns.of(many, 216, rank=3)
    # Some 20 ms, in a thread of its own; a hundred times that would be a fault.
    assert time.process_time() - began < 2
