"""What people do on the screens, key by key, over real records and a real library."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from rankdeck_profiles.library import Library
from rankdeck_runs.errors import PrepareError
from rankdeck_runs.live import LinkState
from rankdeck_runs.record import Record
from rankdeck_runs.stopping import StopProgress, StopResult
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.composing import Composition
from rankdeck_tui.logs.tiles import Target
from rankdeck_tui.screens.composer import ComposerScreen
from rankdeck_tui.screens.run import RunScreen
from rankdeck_tui.widgets.log_board import LogBoard
from rankdeck_tui.widgets.rank_grid import RankGrid
from tui import goldens
from tui.deck import deck, engine_of, sees, text, until
from tui.records import BEGIN, ended, happen, log, started, write_run

NOW = BEGIN + 125
SIZE = (120, 40)


def running(place: Path, lines: int = 60, framework: str = "pytorch") -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa", framework=framework)
    happen(record, started(record))
    for rank in range(4):
        log(record, rank, b"".join(b"rank %d step %d\n" % (rank, step) for step in range(lines)))
    log(record, 1, b"a warning\n", "err")
    return record


def board_of(app: RankdeckApp) -> LogBoard:
    return app.screen.query_one(LogBoard)


async def test_a_newcomer_saves_a_profile_and_composes_it(place: Path) -> None:
    for path in (place / "config").rglob("*.toml"):
        path.unlink()
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "No run yet")
        await pilot.press("n")
        await sees(pilot, "New profile")
        await pilot.press(*"mine", "tab", *"train.py", "tab", "right", "tab", *"--lr 0.1", "ctrl+s")
        await sees(pilot, "mine", "train.py --lr")
        saved = Library(place / "config", place / "work").profile("mine")
        assert (saved.framework, saved.script, saved.args) == ("pytorch", "train.py", ("--lr", "0.1"))
        await pilot.press("enter")
        await sees(pilot, "new run of mine", "ready")


async def test_a_wrong_form_says_so_beside_the_field_and_saves_nothing(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "tab", "n")
        await sees(pilot, "New pool")
        await pilot.press("ctrl+s")
        await sees(pilot, "a name is needed")
        await pilot.press(*"bad", "tab", "tab", *"gpu[01-", "ctrl+s")
        await sees(pilot, "gpu[01-")
        assert "New pool" in text(app)
        assert not (place / "config" / "pools" / "bad.toml").exists()
        await pilot.press("escape")
        await until(pilot, lambda: "New pool" not in text(app))


async def test_changing_a_profile_keeps_what_the_form_does_not_show(place: Path) -> None:
    path = place / "config" / "profiles" / "resnet.toml"
    path.write_text("# mine\n" + path.read_text() + '\n[stop]\ngrace = "5s"\n')
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "e")
        await sees(pilot, "Change profile resnet")
        app.screen.query_one("#args", Input).value = "--epochs 3"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "--epochs" in path.read_text() and '"3"' in path.read_text())
    saved = path.read_text()
    assert saved.startswith("# mine\n")
    assert 'grace = "5s"' in saved


async def test_composing_changes_the_plan_as_one_types(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "ready", "SLURM_PROCID", "--epochs 50")
        await pilot.press("right_square_bracket")
        await sees(pilot, "node n2 2/2", "rank 2")
        await pilot.press("greater_than_sign")
        await sees(pilot, "rank 3")
        field = app.screen.query_one("#procs_per_node", Input)
        field.focus()
        field.value = "1"
        await sees(pilot, "2 ranks on 2 nodes")
        field.value = "none"
        await sees(pilot, "a whole number", "a field is wrong")
        field.value = "2"
        await sees(pilot, "4 ranks on 2 nodes", "ready")


async def test_the_interpreter_and_the_folder_are_chosen_here(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "ready", "Folder", "Python")
        app.screen.query_one("#python", Input).value = "/opt/venv/bin/python"
        app.screen.query_one("#workdir", Input).value = "/data/work"
        await sees(pilot, "/opt/venv/bin/python -u", "/data/work")
        await until(pilot, lambda: engine_of(app).asked[-1][0].python == "/opt/venv/bin/python")
        app.screen.query_one("#python", Input).value = ""
        await until(pilot, lambda: engine_of(app).asked[-1][0].python == "python3")


async def test_launching_opens_the_dashboard(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter", "S")
        await until(pilot, lambda: engine.launched)
        assert engine.launched[0].profile.name == "resnet"
        assert engine.launched[0].plan.world_size == 4
        record = running(place)
        engine.launches.set_result(record.id)
        await sees(pilot, "R running 4", "rank 0 step 59")
        assert isinstance(app.screen, RunScreen)
        await pilot.press("escape")
        await sees(pilot, "Profiles", record.id)


async def test_what_earlier_runs_left_is_shown_above_the_plan(place: Path) -> None:
    app = deck(place)
    engine_of(app).remains = (("n2", "run r7 has ended and left processes: 4711 python"),)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "n2: run r7 has ended and left processes: 4711 python", "4 ranks", "ready")


async def test_problems_are_shown_and_overruled_only_after_a_question(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    engine.refusal = PrepareError([("n2", "train.py is not there (script)")], "copy it to n2", 2)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "train.py is not there", "copy it to n2", "not ready")
        await pilot.press("S")
        await sees(pilot, "Launch although", "Cancel")
        await pilot.press("enter")
        await until(pilot, lambda: "Launch although" not in text(app))
        assert not engine.launched
        await pilot.press("S")
        await sees(pilot, "Launch although")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: engine.launched)
        assert engine.asked[-1][2] is True


async def test_checks_that_fail_name_the_keys_that_help_not_the_command_lines_options(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    engine.refusal = PrepareError([("n2", "no RDMA module")], "modprobe it", 1, checks_failed=True)
    assert "--skip-checks" in engine.refusal.hint
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "no RDMA module", "modprobe it", "p shows what else was found", "S asks whether")
        assert "--skip-checks" not in text(app)
        await pilot.press("S")
        await sees(pilot, "Launch although", "Cancel")


async def test_a_node_out_of_reach_can_not_be_overruled(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    engine.refusal = PrepareError([("n2", "no route to host")], "is it on?", 3)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter")
        await sees(pilot, "no route to host", "is it on?")
        await pilot.press("S")
        await pilot.pause()
        assert "Launch although" not in text(app)
        assert not engine.launched


async def test_one_key_launches_a_run_again_from_its_record(place: Path) -> None:
    record = running(place)
    happen(record, ended(record))
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "succeeded")
        await pilot.press("R")
        await until(pilot, lambda: engine.launched)
        assert engine.launched[0].profile.source == record.profile_path


async def test_a_change_calls_the_launch_off(place: Path) -> None:
    record = running(place)
    happen(record, ended(record))
    app = deck(place)
    engine = engine_of(app)
    engine.silent = True
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "succeeded")
        app.push_screen(ComposerScreen(Composition.of_record(app.library, record, record.id), launch=True))
        await until(pilot, lambda: engine.asked)
        app.screen.query_one("#nodes", Input).value = "1"
        engine.silent = False
        await sees(pilot, "on 1 node", "ready")
        assert not engine.launched


async def test_a_run_is_changed_and_launched_again(place: Path) -> None:
    record = running(place)
    happen(record, ended(record))
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "succeeded")
        await pilot.press("c")
        await sees(pilot, "again: " + record.id, "(as recorded)", "ready")
        assert isinstance(app.screen, ComposerScreen)
        await pilot.press("S")
        await until(pilot, lambda: engine.launched)
        assert engine.launched[0].profile.source == record.profile_path
        assert [node.name for node in engine.launched[0].pool.nodes] == ["n1", "n2"]


async def test_a_running_run_changes_on_the_home_screen(place: Path) -> None:
    record = running(place)
    app = deck(place, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "R running")
        for event in ended(record, {3: 9}):
            engine_of(app).attach(record.id).apply(event)
        await sees(pilot, "F failed")


async def test_the_filter_narrows_all_lists(place: Path) -> None:
    running(place)
    app = deck(place, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "bert", "h100", "resnet-aaaa")
        await pilot.press("slash", *"bert", "enter")
        await until(pilot, lambda: "resnet-aaaa" not in text(app))
        assert "bert" in text(app)
        await pilot.press("slash", "escape")
        await sees(pilot, "resnet-aaaa")


async def test_broken_files_are_listed_with_their_error(place: Path) -> None:
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "odd", "broken")
        await pilot.press("tab", "G")
        await sees(pilot, "odd.toml:1", 'did you mean "torchrun"?', "allowed: ")


async def test_ranks_open_by_enter_and_by_digits(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 0 step 59", "rank 3 step 59")
        board = board_of(app)
        await pilot.press("2")
        await until(pilot, lambda: board.targets()[0] == Target(2))
        assert isinstance(app.focused, RankGrid)
        await pilot.press("right", "enter")
        await until(pilot, lambda: board.targets()[0] == Target(3))
        assert app.focused is board
        assert engine_of(app).attach(record.id).watched == {1, 2, 3}


async def test_split_close_and_tab(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await sees(pilot, "rank 0 step 59")
        board = board_of(app)
        await pilot.press("s")
        await until(pilot, lambda: board.targets() == [Target(0), Target(1)])
        await sees(pilot, "rank 1 step 59")
        await pilot.press("tab")
        assert app.focused is board
        assert board.focused_tile == 1
        await pilot.press("shift+tab")
        assert board.focused_tile == 0
        await pilot.press("c")
        await until(pilot, lambda: board.targets() == [Target(1)])
        await pilot.press("X")
        await sees(pilot, "last tile")


async def test_scroll_back_pauses_and_g_follows(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is board_of(app))
        await pilot.press("k", "k")
        await sees(pilot, "PAUSED +0")
        log(record, 0, b"rank 0 step 60\nrank 0 step 61\n")
        await sees(pilot, "PAUSED +2")
        assert "rank 0 step 61" not in text(app)
        await pilot.press("G")
        await sees(pilot, "rank 0 step 61")


async def test_filter_search_wrap_and_streams_in_a_tile(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is board_of(app))
        await pilot.press("slash", *"step 1")
        await sees(pilot, " filter  step 1 ", "!text inverts", "rank 0 step 19")
        await pilot.press("enter")
        await sees(pilot, "/step 1 11", "rank 0 step 19")
        assert "step 59" not in text(app)
        await pilot.press("slash", "escape")
        await sees(pilot, "step 59")
        await pilot.press("n", *"step 7", "enter")
        await sees(pilot, "PAUSED", "rank 0 step 7")
        await pilot.press("n")
        await sees(pilot, "no more hits below")
        await pilot.press("w")
        await sees(pilot, "wrap")
        await pilot.press("1", "o")
        await sees(pilot, "a warning")
        await pilot.press("o")
        await sees(pilot, "rank 1 step 59", "a warning")


async def test_escape_takes_the_filter_away_before_it_leaves(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("enter", "slash", *"step 1", "enter")
        await sees(pilot, "/step 1 11")
        await pilot.press("escape")
        await sees(pilot, "rank 0 step 59")
        assert "/step 1" not in text(app)
        assert isinstance(app.screen, RunScreen)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, RunScreen))


async def test_a_low_screen_shows_one_log_at_a_time(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(40, 10)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and bool(board_of(app).tiles))
        await pilot.press("s", "s", "enter")
        await sees(pilot, "3 of 3", "rank 0 step 59")
        await pilot.press("tab", "tab")
        await sees(pilot, "2 of 3", "rank 1 step 59")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.focused, RankGrid))
        assert "rank 1 step" not in text(app)


async def test_many_tiles_on_a_screen_made_small_are_shown_in_turn(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 3 step 59")
        await pilot.resize_terminal(80, 24)
        await sees(pilot, "1 of 4", "rank 0 step 59")
        await pilot.press("tab", "tab")
        await sees(pilot, "2 of 4", "rank 1 step 59")


async def test_the_next_bad_rank_opens_with_both_streams(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    live = engine_of(app).attach(record.id)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "R running 4")
        for event in ended(record, {1: 3}):
            live.apply(event)
        await sees(pilot, "rank 1 on n1 failed", "F failed 1", "record complete")
        await pilot.press("e")
        await sees(pilot, "exit 3 · both", "a warning")


async def test_the_launcher_has_a_log_too(place: Path) -> None:
    record = running(place, framework="torchrun")
    happen(record, [{"ev": "launcher_started", "seq": 4, "node": "n2", "t": BEGIN, "process": 0, "pid": 77}])
    app = deck(place, record.id, now=NOW)
    launchers = engine_of(app).attach(record.id).snapshot().launchers
    name = next(launcher.err_log for launcher in launchers if launcher.node == "n2")
    record.log_path(name).write_bytes(b"torchrun says hello\n")
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("3", "L")
        await sees(pilot, "launcher 0", "torchrun says hello")


async def test_a_thousand_ranks_fit_the_whole_screen(place: Path) -> None:
    nodes = tuple(f"gpu{number:03}" for number in range(128))
    record = write_run(place / "home", "20261118-102640-big-aaaa", nodes=nodes, per_node=8)
    happen(record, [*started(record), *ended(record, {777: 1}, first_seq=10)])
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "1,024 ranks", "F failed 1", "S succeeded 1023")
        await pilot.press("f")
        await sees(pilot, "gpu000", "gpu127")
        grid = app.screen.query_one(RankGrid)
        await pilot.press("e", *"512")
        await until(pilot, lambda: grid.cursor == 512)
        await sees(pilot, "rank 512")
        await goldens.check(app, "grid-1024-120x40", place)


async def test_a_very_low_window_still_shows_how_to_answer(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id)
    async with app.run_test(size=(40, 10)) as pilot:
        await sees(pilot, "R running 4")
        await pilot.press("x")
        await sees(pilot, "Cancel (n)", "Stop the run (y)")


async def test_stopping_asks_then_shows_what_is_left(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "R running 4")
        await pilot.press("x")
        await sees(pilot, "Stop " + record.id, "n1, n2")
        await pilot.press("enter")
        await until(pilot, lambda: "Cancel" not in text(app))
        assert engine.stopped == []
        await pilot.press("x")
        await sees(pilot, "Cancel")
        await pilot.press("right", "enter")
        await until(pilot, lambda: engine.stopped == [(record.id, False)])
        engine.progress(StopProgress("n2", ((2, 1100), (3, 1101)), 41.0))
        await sees(pilot, "ranks 2-3 on n2: SIGKILL in 41 s")
        await pilot.press("x")
        await until(pilot, lambda: engine.stopped[1:] == [(record.id, True)])
        engine.stops[-1].set_result(StopResult(gone=True))
        await sees(pilot, "Nothing of the run is left")
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing of the run is left" not in text(app))


async def test_the_question_takes_y_and_n(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "R running 4")
        await pilot.press("x")
        await sees(pilot, "Stop " + record.id)
        await pilot.press("n")
        await until(pilot, lambda: "Cancel" not in text(app))
        assert engine.stopped == []
        await pilot.press("x")
        await sees(pilot, "Cancel")
        await pilot.press("y")
        await sees(pilot, "Stopping " + record.id)
        await pilot.press("y")
        await pilot.pause()
        assert engine.stopped == [(record.id, False)]


async def test_an_ended_run_needs_no_node_and_says_that_it_ended(place: Path) -> None:
    record = running(place)
    happen(record, ended(record))
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "S succeeded", "4 ranks ended after 1:00", "record complete", "END")
        assert "x stop" not in text(app)
        await pilot.press("x")
        await pilot.pause()
        assert "Cancel" not in text(app)


async def test_a_lost_node_is_named(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "2 links up")
        engine_of(app).attach(record.id).set_link("n2", LinkState.LOST, "connection reset")
        await sees(pilot, "lost n2", "link lost")


async def test_leaving_in_the_midst_of_a_launch_is_asked_about(place: Path) -> None:
    app = deck(place)
    engine = engine_of(app)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "resnet")
        await pilot.press("tab", "j", "enter", "S")
        await until(pilot, lambda: engine.launched)
        await pilot.press("ctrl+q")
        await sees(pilot, "Leave in the midst of a launch?", "rankdeck stop last")
        await pilot.press("enter")
        await until(pilot, lambda: "Leave in the midst" not in text(app))
        assert app.is_running
        await pilot.press("ctrl+q")
        await sees(pilot, "Leave in the midst of a launch?")
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)


async def test_a_record_that_can_not_be_written_is_told(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    live = engine_of(app).attach(record.id)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "2 links up")
        live.set_link("n2", LinkState.LOST, "the record can't be written: No space left on device")
        live.set_unwritten("No space left on device")
        await sees(pilot, "record can't be written: No space left on device")
        live.set_link("n2", LinkState.CONNECTED)
        live.set_unwritten("")
        await sees(pilot, "2 links up")


async def test_a_run_that_is_not_there_is_told(place: Path) -> None:
    app = deck(place, "20200101-000000-none-zzzz")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await sees(pilot, "no run is named", "Profiles")


async def test_every_action_is_in_the_palette_and_acts(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("colon", *"split")
        await sees(pilot, "Split: Add a tile")
        before = len(board_of_below(app).tiles)
        await pilot.press("enter")
        await until(pilot, lambda: len(board_of(app).tiles) == before + 1)


def board_of_below(app: RankdeckApp) -> LogBoard:
    return app.screen_stack[-2].query_one(LogBoard)


async def test_help_names_keys_of_every_pane(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(120, 90)) as pilot:
        await sees(pilot, "rank 0 step 59")
        await pilot.press("question_mark")
        await sees(pilot, "Rank grid", "Logs", "Show only matching lines", "Stop the run")


async def test_quit_asks_nothing(place: Path) -> None:
    running(place)
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "R running")
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_run_that_has_ended_is_not_asked_to_stop(place: Path) -> None:
    record = running(place)
    happen(record, ended(record))
    app = deck(place)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "succeeded")
        await pilot.press("x")
        await until(pilot, lambda: any("nothing to stop" in note.message for note in app._notifications))
        assert not app.screen.is_modal
        assert not engine_of(app).stopped
