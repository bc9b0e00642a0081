"""The composer's plan: everything that each rank of each framework finds, at every width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.rank_view import of_rank
from rankdeck_runs.errors import PrepareError
from rankdeck_tui.look import Look, draw
from rankdeck_tui.look.glyphs import UNICODE
from rankdeck_tui.look.ink import in_colour
from rankdeck_tui.widgets.plan_view import Place, plan_lines, title_parts
from tui.deck import deck, engine_of, sees, text

GOLDEN = Path(__file__).parents[1] / "profiles" / "golden"
PLANS = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("2x2.json"))
LOOK = Look(in_colour(), UNICODE)


def words(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("width", [116, 76, 36])
@pytest.mark.parametrize("name", PLANS)
def test_every_variable_of_every_rank_is_shown_whole(name: str, width: int) -> None:
    answer = json.loads((GOLDEN / name).read_text())
    if "refused" in answer:
        pytest.skip("these nodes are refused")
    plan = LaunchPlan.from_json(answer)
    for number, node in enumerate(plan.nodes):
        for index in range(len(node.ranks)):
            lines = plan_lines(plan, Place(number, index), LOOK, width)
            shown = words("".join(part[0] for parts in lines for part in parts))
            view = of_rank(plan, node, index)
            for row in (*view.env, *view.launcher_env):
                assert words(row.name) in shown
                assert words(row.value) in shown
                assert words(row.why) in shown
            for removed in node.env_removed:
                assert words(removed.name) in shown
                assert words(removed.why) in shown
            if width >= 76:
                assert max(draw.measure(parts) for parts in lines) <= width + 2


def test_a_task_s_role_stands_in_the_title() -> None:
    plan = LaunchPlan.from_json(json.loads((GOLDEN / "tensorflow/ps/4x8.json").read_text()))
    titles = [
        "".join(part[0] for part in title_parts(plan, Place(number, index), LOOK))
        for number, node in enumerate(plan.nodes)
        for index in range(len(node.ranks))
    ]
    assert any("chief 0" in title for title in titles)
    assert any("ps 1" in title for title in titles)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_an_mpirun_s_ranks_are_shown_on_their_own_nodes(place: Path, size: tuple[int, int]) -> None:
    path = place / "config/profiles/resnet.toml"
    path.write_text('framework = "mpi"\nscript = "train.py"\nworkdir = "/work"\npool = "h100"\n')
    app = deck(place)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "ready", "one mpirun for ranks 0-3, on all nodes")
        await pilot.press("right_square_bracket", "greater_than_sign")
        await sees(pilot, "node n2 2/2", "rank 3", "it runs on")
        await pilot.press("G")
        await sees(pilot, "OMPI_MCA_oob_tcp_if_include", "RANKDECK_RANK_DIR")


async def test_a_refused_plan_is_the_one_that_the_nodes_were_asked_about(place: Path) -> None:
    app = deck(place)
    plan = LaunchPlan.from_json(json.loads((GOLDEN / "mpi/2x2.json").read_text()))
    engine_of(app).refusal = PrepareError([("n2", "train.py is not there")], "copy it to n2", 2, plan)
    async with app.run_test(size=(120, 60)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "train.py is not there", "one mpirun for ranks 0-3")
        assert "Assumed" not in text(app)


async def test_answers_that_allow_no_plan_are_not_said_to_be_awaited(place: Path) -> None:
    app = deck(place)
    engine_of(app).refusal = PlanError("node n2 has no mpirun", "install one")
    async with app.run_test(size=(120, 80)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "node n2 has no mpirun", "Assumed  without the nodes' answers")
        assert "until the nodes are asked" not in text(app)


async def test_the_total_of_ranks_is_composed_too(place: Path) -> None:
    from textual.widgets import Input

    app = deck(place)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "4 ranks on 2 nodes")
        app.screen.query_one("#process_count", Input).value = "6"
        await sees(pilot, "not ready", "process_count = 6")
        app.screen.query_one("#procs_per_node", Input).value = ""
        app.screen.query_one("#process_count", Input).value = "2"
        await sees(pilot, "2 ranks on 2 nodes", "ready")


async def test_the_plan_is_seen_on_a_low_screen(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=(40, 10)) as pilot:
        await sees(pilot, "Runs")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "Plan", "pytorch")
        await pilot.press("shift+tab")
        await sees(pilot, "Plan", "Folder")
