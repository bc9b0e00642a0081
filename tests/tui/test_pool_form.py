"""The form for a pool: what was understood of names, host files and pasted text is shown meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from rankdeck_profiles.library import Library
from rankdeck_profiles.model import Pool
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.understanding import entries_of_text, pasted, understand
from tui.deck import deck, sees, text, until

SIZE = (120, 40)


def saved(place: Path, name: str) -> Pool:
    return Library(place / "config", place / "work").pool(name)


def value(app: RankdeckApp, key: str) -> str:
    return app.screen.query_one(f"#{key}", Input).value


async def new_pool(pilot: Pilot[int]) -> None:
    await sees(pilot, "resnet")
    await pilot.press("tab", "tab", "n")
    await sees(pilot, "New pool", "Understood")


@pytest.mark.parametrize("size", [SIZE, (80, 24)])
async def test_a_hostfile_s_nodes_are_shown_while_its_path_is_typed(
    place: Path, size: tuple[int, int]
) -> None:
    (place / "work/hosts").write_text("a01 slots=4 port=2222\r\na02 slots=2\r\n")
    app = deck(place)
    async with app.run_test(size=size) as pilot:
        await new_pool(pilot)
        await pilot.press(*"mine")
        app.screen.query_one("#hostfile", Input).focus()
        await pilot.press(*"hosts")
        await sees(pilot, "2 nodes, 6 slots", "a01", "port 2222", "read as openmpi")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: (place / "config/pools/mine.toml").exists())
    assert [(node.name, node.slots) for node in saved(place, "mine").nodes] == [("a01", 4), ("a02", 2)]
    assert f'hostfile = "{place}/work/hosts"' in (place / "config/pools/mine.toml").read_text()


async def test_a_pasted_hostfile_fills_the_fields(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await new_pool(pilot)
        await pilot.press(*"mine")
        app.screen.query_one("#nodes", Input).focus()
        app.screen.query_one("#nodes", Input).post_message(Paste("# lab\nbob@a01 slots=8\nbob@a02 slots=8\n"))
        await sees(pilot, "2 nodes, 16 slots", "user bob", "pasted, read as openmpi")
        assert (value(app, "nodes"), value(app, "slots")) == ("bob@a[01-02]", "8")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: (place / "config/pools/mine.toml").exists())
    assert [(node.user, node.host) for node in saved(place, "mine").nodes] == [("bob", "a01"), ("bob", "a02")]


async def test_what_is_wrong_in_pasted_text_is_told_with_its_line_and_nothing_is_filled_in(
    place: Path,
) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await new_pool(pilot)
        app.screen.query_one("#nodes", Input).focus()
        app.screen.query_one("#nodes", Input).post_message(Paste("a01 slots=8\na02 slots=x\n"))
        await sees(pilot, "line 2: `a02 slots=x`")
        assert value(app, "nodes") == ""
        app.screen.query_one("#nodes", Input).post_message(Paste("a01"))
        await sees(pilot, "1 node, slots counted")
        assert "line 2" not in text(app)


async def test_what_was_wrong_in_pasted_text_is_over_once_a_host_file_is_named(place: Path) -> None:
    (place / "hosts").write_text("b01 slots=2\nb02 slots=2\n")
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await new_pool(pilot)
        app.screen.query_one("#nodes", Input).focus()
        app.screen.query_one("#nodes", Input).post_message(Paste("a01 slots=8\na02 slots=x\n"))
        await sees(pilot, "line 2: `a02 slots=x`")
        app.screen.query_one("#hostfile", Input).value = str(place / "hosts")
        await sees(pilot, "2 nodes, 4 slots")
        assert "slots=x" not in text(app)


async def test_a_half_typed_range_is_told_when_it_is_left(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await new_pool(pilot)
        app.screen.query_one("#nodes", Input).focus()
        await pilot.press(*"n1 g[1-", "tab")
        await sees(pilot, "a bracket is not closed")
        app.screen.query_one("#nodes", Input).value = "n1 g[1-2] slots=4"
        await sees(pilot, "3 nodes, slots counted on the nodes")
        assert "not closed" not in text(app)


async def test_a_pool_with_a_hostfile_is_changed_without_taking_its_nodes_over(place: Path) -> None:
    path = place / "config/pools/lab.toml"
    (path.parent / "hosts").write_text("a01\na02\n")
    path.write_text('backend = "ssh"\nnodes = ["n1 slots=2 gpus=0,2"]\nhostfile = "hosts"\n')
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "tab")
        await until(pilot, lambda: "lab" in text(app))
        while "Change pool lab" not in text(app):
            await pilot.press("e")
            await pilot.pause()
            if "Change pool" in text(app) and "Change pool lab" not in text(app):
                await pilot.press("escape", "j")
        await sees(pilot, "Change pool lab", "a02")
        assert (value(app, "nodes"), value(app, "hostfile")) == ("n1 slots=2 gpus=0,2", "hosts")
        app.screen.query_one("#interface", Input).value = "ib0"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "ib0" in path.read_text())
    pool = saved(place, "lab")
    assert [node.name for node in pool.nodes] == ["n1", "a01", "a02"]
    assert (pool.nodes[0].slots, pool.nodes[0].gpus) == (2, (0, 2))


def test_entries_keep_the_words_behind_them():
    assert entries_of_text("n1 slots=4, n[1,2] gpus=0,2 slots=2 n3") == [
        "n1 slots=4",
        "n[1,2] gpus=0,2 slots=2",
        "n3",
    ]


def test_what_is_pasted_on_one_line_is_taken_as_typed_where_it_may_be_meant_so():
    for line in ("n1", "n[1-3],n7", "n1:2222", "bob@n1", " ", ""):
        assert pasted(line) is None
    for line in ("w0:2,w1:2", "n1 4 n2 4", "n1 slots=2"):
        assert pasted(line) is not None


def test_a_thousand_nodes_are_understood_quickly(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("".join(f"gpu-{n:04}.cluster.example.org slots=8\n" for n in range(1000)))
    began = time.monotonic()
    found = understand("", "hosts", None, tmp_path)
    took = time.monotonic() - began
    assert found.total == "1,000 nodes, 8,000 slots"
    assert took < 5, "a thousand lines take a small part of a second on an idle machine"


async def test_the_composer_s_nodes_are_a_number_or_names(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "new run of resnet", "4 ranks on 2 nodes")
        field = app.screen.query_one("#nodes", Input)
        for typed, seen in (
            ("n2", "2 ranks on 1 node"),
            ("n9", '"n9" is no node of pool'),
            ("n[2,1]", "node n2 1/2"),
            ("n1:0", "1 rank on 1 node"),
            ("1", "2 ranks on 1 node"),
            ("-1", "nodes = -1"),
        ):
            field.value = typed
            await sees(pilot, seen)


async def test_nodes_are_picked_by_typing_and_marking(place: Path) -> None:
    (place / "config/pools/h100.toml").write_text('backend = "ssh"\nnodes = ["gpu[001-500]"]\nslots = 2\n')
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "1,000 ranks on 500 nodes")
        await pilot.press("n")
        await sees(pilot, "Nodes of h100", "gpu001")
        await pilot.press(*"47", "tab", "tab")
        await sees(pilot, "* gpu047", "* gpu147", "  gpu247")
        await pilot.press("enter")
        await sees(pilot, "4 ranks on 2 nodes")
        assert value(app, "nodes") == "gpu047,gpu147"
        app.screen.query_one("#preview").focus()
        await pilot.press("n", *"gpu01", "ctrl+a", "enter")
        await sees(pilot, "20 ranks on 10 nodes")
        assert value(app, "nodes") == "gpu[010-019]"
        app.screen.query_one("#preview").focus()
        await pilot.press("n", "ctrl+a", "enter")
        await sees(pilot, "1,000 ranks on 500 nodes")
        assert value(app, "nodes") == ""
        app.screen.query_one("#preview").focus()
        await pilot.press("n", *"gpu123", "enter")
        await sees(pilot, "2 ranks on 1 node")


def test_a_host_on_several_lines_is_to_be_corrected_not_settled_by_an_option(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1 slots=4\nn1 slots=2\n")
    ((field, what, hint),) = understand("", "hosts", None, tmp_path).wrong
    assert field == "hostfile"
    assert "lines 1 and 2" in what
    assert "correct the file: each host once" in hint
    assert "--duplicates" not in what + hint
    read = pasted("n1 slots=4\nn1 slots=2\n")
    assert read is not None
    assert [problem.fix for problem in read.problems] == ["correct the file: each host once"]
