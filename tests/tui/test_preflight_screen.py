"""The preflight screen by its keys: from a pool and from the composer, walked through, written to a file."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.library import Library
from rankdeck_runs.active import ActiveTest, Measured
from rankdeck_runs.active_findings import with_measured
from rankdeck_runs.checking import Checked
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.preflight.grid import CheckMatrix
from rankdeck_tui.widgets.lines import Lines
from tui import goldens
from tui.checked import fixed, large, small
from tui.deck import DeskEngine, deck, sees, text, until
from tui.records import BEGIN
from tui.test_goldens import SIZES

NOW = BEGIN + 125


@pytest.fixture(autouse=True)
def many(place: Path) -> None:
    (place / "config" / "pools" / "h100.toml").write_text(
        'backend = "ssh"\nnodes = ["gpu[001-064]"]\nslots = 8\n'
    )


def desk(app: RankdeckApp) -> DeskEngine:
    assert isinstance(app.engine, DeskEngine)
    return app.engine


async def opened(pilot: Pilot[None], app: RankdeckApp) -> None:
    """The preflight of the pool h100, its nodes being asked."""
    await sees(pilot, "h100", "resnet")
    await pilot.press("tab", "tab", "p")
    await until(pilot, lambda: desk(app).checks)
    await sees(pilot, "Asking the nodes")


async def answered(pilot: Pilot[None], app: RankdeckApp, checked: Checked) -> None:
    desk(app).checks[-1][2].set_result(checked)
    await until(pilot, lambda: not app.screen.query(Lines).filter("#progress").first().display)
    await sees(pilot, "Nodes x checks")


def where(app: RankdeckApp) -> tuple[str, str]:
    place = app.screen.query_one(CheckMatrix).place
    assert place is not None
    return place[0].name, place[1].key


@SIZES
async def test_how_it_looks(place: Path, size: tuple[int, int]) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, fixed())
        await sees(pilot, "3 reasons not to launch")
        await goldens.check(app, f"preflight-{size[0]}x{size[1]}", place)
        await pilot.press("e", "enter")
        await sees(pilot, "look at the cable", "half the bandwidth")
        await goldens.check(app, f"preflight-unfolded-{size[0]}x{size[1]}", place)


async def test_a_small_terminal_shows_one_pane_at_a_time(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(40, 10)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, fixed())
        await sees(pilot, "gpu020", "fabric")
        await goldens.check(app, "preflight-40x10", place)
        await pilot.press("tab")
        await sees(pilot, "ib.port-state")
        assert "gpu033 " not in text(app)
        await pilot.press("escape")
        await sees(pilot, "gpu020", "fabric")
        await pilot.press("escape")
        await sees(pilot, "Pools")


async def test_what_fits_is_unfolded_at_once(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(200, 40)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, small("ndr-ok-a", "ndr-port-down"))
        await sees(pilot, "port-state", "mlx5_3:1 is DOWN")
        assert where(app) == ("ndr-port-down", "ib.port-state")


async def test_progress_while_nodes_are_asked_and_asked_again(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await sees(pilot, "looking at 64 nodes of pool h100")
        await answered(pilot, app, large())
        await pilot.press("e", "enter", "r")
        await until(pilot, lambda: len(desk(app).checks) == 2)
        await sees(pilot, "looking at 64 nodes of pool h100", "Nodes x checks 64")
        before = where(app)
        desk(app).checks[-1][2].set_result(large())
        await sees(pilot, "reasons not to launch")
        assert where(app) == before


async def test_an_error_is_told_in_place_and_r_asks_again(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        desk(app).checks[-1][2].set_exception(PlanError("the pool is too small", "take another"))
        await sees(pilot, "the pool is too small", "take another")
        await pilot.press("r")
        await until(pilot, lambda: len(desk(app).checks) == 2)
        await answered(pilot, app, large())


async def test_e_goes_to_every_problem_and_round(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        first = where(app)
        seen = [first]
        for _ in range(30):
            await pilot.press("e")
            if where(app) == first:
                break
            seen.append(where(app))
        assert where(app) == first
        assert len(seen) == len(set(seen)) > 5
        assert {"gpu007", "gpu020", "gpu033"} <= {name for name, _ in seen}


async def test_nodes_one_by_one_and_alike_again(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await pilot.press("space", "G")
        await sees(pilot, "gpu064")
        assert where(app)[0] == "gpu064"
        await pilot.press("space")
        await sees(pilot, "61 x gpu[001-00")


async def test_every_check_and_groups_again(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await pilot.press("a", "end")
        await until(pilot, lambda: where(app)[1].startswith("clock."))
        columns = app.screen.query_one(CheckMatrix).matrix.columns  # type: ignore[union-attr]
        assert len(columns) == len({finding.id for finding in large().report.findings})
        await pilot.press("a", "home")
        await sees(pilot, "fabric GPU")


@pytest.mark.parametrize("name", ["for-the-ticket.md", "for-the-ticket.json"])
async def test_the_report_as_a_file(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(place / "work")
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await pilot.press("w")
        await sees(pilot, "preflight-h100-20261118-110845.md", "enter writes")
        app.screen.query_one("Prompt Input").value = name  # type: ignore[attr-defined]
        await pilot.press("enter")
        await sees(pilot, "Report written")
        written = (place / "work" / name).read_text()
        if name.endswith("json"):
            assert json.loads(written) == large().to_json()
        else:
            assert written.startswith("# Preflight of pool h100: fail\n")
            assert "mlx5_3:1 is DOWN" in written


async def test_a_file_that_is_there_is_replaced_only_if_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place / "work")
    mine = place / "work" / "notes.md"
    mine.write_text("my own notes")
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        for answer in ("n", "y"):
            await pilot.press("w")
            await sees(pilot, "enter writes")
            app.screen.query_one("Prompt Input").value = "notes.md"  # type: ignore[attr-defined]
            await pilot.press("enter")
            await sees(pilot, "Replace the file?", "is there already")
            assert mine.read_text() == "my own notes"
            await pilot.press(answer)
            await sees(pilot, "Nodes x checks")
        await sees(pilot, "Report written")
        assert mine.read_text().startswith("# Preflight of pool h100: fail\n")


async def test_the_active_test_s_key_is_in_the_bottom_line(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await sees(pilot, "t try pairs", "w write", "r ask again")


async def test_a_file_that_can_t_be_written_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place / "work")
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await pilot.press("w")
        await sees(pilot, "enter writes")
        app.screen.query_one("Prompt Input").value = "no/such/folder/x.md"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await sees(pilot, "was not written", "No such file")
        await pilot.press("w", "escape")
        await sees(pilot, "Nodes x checks")
        assert os.listdir(place / "work") == []


async def test_from_the_composer_with_its_profile(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "ready")
        await pilot.press("p")
        await until(pilot, lambda: desk(app).checks)
        profile, pool, _ = desk(app).checks[0]
        assert profile is not None
        assert (profile.name, pool.name) == ("resnet", "h100")
        await answered(pilot, app, large())
        await pilot.press("escape")
        await sees(pilot, "new run of resnet")


async def test_leaving_while_nodes_are_asked_waits_for_nothing(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press("escape")
        await sees(pilot, "Profiles")
        assert desk(app).checks[0][2].cancelled()


async def test_a_pool_with_a_node_missing_sends_nothing(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, app)
        await pilot.press("t")  # nothing is known yet: the key does nothing
        await answered(pilot, app, replace(large(), unreached=("gpu009",)))
        await pilot.press("t")
        await sees(pilot, "Nothing was sent", "gpu009 could not be reached")


async def test_the_cost_is_said_before_anything_is_sent(place: Path) -> None:
    app = deck(place, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, large())
        await pilot.press("t")
        await sees(pilot, "What sends", "an all-reduce over NCCL", "messages there and back")
        await pilot.press("enter")
        await sees(pilot, "Have pairs of nodes send?", "32 pairs of nodes, up to 16 at once", "slowed down")
        await pilot.press("enter")  # Cancel has the focus
        await sees(pilot, "Nodes x checks")
        assert not desk(app).asked


async def test_pairs_stand_in_their_nodes_rows(place: Path) -> None:
    pairs = [
        Measured((f"gpu{n:03}", f"gpu{n + 1:03}"), f"r{n}", 46.0 + n / 100, "NCCL") for n in range(1, 64, 2)
    ]
    pairs[4] = replace(pairs[4], gbytes_per_s=20.0)
    app = deck(place, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await answered(pilot, app, with_measured(fixed(), ActiveTest.TORCH, pairs))
        await sees(pilot, "2 x gpu[009-010]", "pairs")
        await goldens.check(app, "preflight-pairs-80x24", place)
        matrix = app.screen.query_one(CheckMatrix).matrix
        assert matrix is not None
        column = next(each for each in matrix.columns if each.ids == ("bw.nccl-pair",))
        slow = next(row for row in matrix.rows if row.nodes == ("gpu009", "gpu010"))
        (finding,) = matrix.cell(slow, column).findings
        assert finding.message.startswith("gpu009 and gpu010: 20.00 GB/s over NCCL")


@pytest.fixture
def real(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RankdeckApp]:
    monkeypatch.setenv("RANKDECK_NODE_DIR", str(place / "node"))
    pools = place / "config" / "pools"
    (pools / "h100.toml").write_text('backend = "local"\nnodes = ["127.0.0.[1-3]"]\n')
    (place / "config" / "profiles" / "a.toml").write_text(
        f'framework = "pytorch"\nscript = "x.py"\nworkdir = "{place}/work"\npool = "h100"\n'
        f'python = "{sys.executable}"\nprocs_per_node = 1\n'
    )
    home = RunHome(place / "home")
    engine = Engine(home)
    try:
        yield RankdeckApp(engine, home, Library(place / "config", place / "work"))
    finally:
        engine.close()


async def test_real_nodes(real: RankdeckApp) -> None:
    async with real.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "h100")
        await pilot.press("tab", "tab", "p")
        await sees(pilot, "Nodes x checks 3 x ", "127.0.0.1")
        await sees(pilot, "launch")


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
async def test_real_pairs_send(real: RankdeckApp) -> None:
    """Three nodes: the last one is tried with the first when that one's own pair has ended."""
    async with real.run_test(size=(160, 40)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "enter")
        await sees(pilot, "new run of a")
        await pilot.press("p")
        await sees(pilot, "Nodes x checks 3 x ")
        await pilot.press("t")
        await sees(pilot, "What sends")
        await pilot.press("enter")
        await sees(pilot, "2 pairs of nodes")
        await pilot.press("right", "enter")
        await sees(pilot, "of 2 pairs sent", "stop trying")
        await until(pilot, lambda: "2 of 2" not in text(real) and "try pairs" in text(real), 180)
        checked = real.screen.asking.checked  # type: ignore[attr-defined]
        assert [each["pair"] for each in checked.measured] == [
            ["127.0.0.1", "127.0.0.2"],
            ["127.0.0.3", "127.0.0.1"],
        ]
        assert [each["problem"] for each in checked.measured] == ["", ""]
        assert all("sockets" in each["transport"] for each in checked.measured)
