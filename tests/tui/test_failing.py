"""A run that fails while somebody watches it: the failed rank's last words come up by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.live import LiveRun
from rankdeck_runs.record import Record
from rankdeck_tui import causes
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.logs.tiles import Stream, Target
from rankdeck_tui.screens.run import RunScreen
from rankdeck_tui.widgets.log_board import LogBoard
from rankdeck_tui.widgets.rank_grid import RankGrid
from tui.deck import deck, sees, text, until
from tui.records import BEGIN, ended, happen, log, started, write_run

NOW = BEGIN + 125
SIZE = (120, 40)


def running(place: Path) -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa", per_node=4)
    happen(record, started(record, per_node=4))
    for rank in range(8):
        log(record, rank, b"step 1\n")
    return record


def fail(record: Record, live: LiveRun, rank: int, words: bytes) -> None:
    log(record, rank, words, "err")
    for event in ended(record, {rank: 1}, first_seq=6):
        if event.get("rank") == rank:
            event["err_bytes"] = len(words)
        live.apply(event)


def board_of(app: RankdeckApp) -> LogBoard:
    assert isinstance(app.screen, RunScreen)
    return app.screen.query_one(LogBoard)


def shown(app: RankdeckApp) -> list[tuple[Target, Stream]]:
    return [(tile.target, tile.stream) for tile in board_of(app).tiles]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
@pytest.mark.parametrize("rank", [2, 6])
async def test_the_failed_rank_s_stderr_comes_up(place: Path, rank: int, size: tuple[int, int]) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    live = app.engine.attach(record.id)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "step 1")
        tiles = len(shown(app))
        fail(record, live, rank, b"ValueError: the loss is not a number\n")
        await sees(pilot, "ValueError: the loss is not a number")
        assert (Target(rank), Stream.ERR) in shown(app)
        assert len(shown(app)) == tiles
        assert board_of(app).tile is not None
        assert board_of(app).tile.target == Target(rank)
        assert app.screen.query_one(RankGrid).cursor == rank


async def test_the_line_that_says_why_is_one_key_away(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    live = app.engine.attach(record.id)
    words = b"warming up\n" * 3000 + b"ValueError: the loss is not a number\n" + b"bye\n" * 3000
    at = words.index(b"ValueError")
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "step 1")
        fail(record, live, 6, words)
        proof = {"text": "ValueError: ...", "log": "rank-00006.err", "offset": at, "rank": 6, "stream": "err"}
        found = {"rank": 6, "node": "n2", "kind": "exit", "message": "ValueError: the loss is not a number"}
        more = {"reason": "exception", "said": "a Python exception ended it", "proofs": [proof]}
        groups = [{"ranks": [0, 1, 2], "said": "it lost the connection to another rank"}]
        about = {"node": "n2", "kind": "exit", "rank": 6}
        live.apply({"ev": "cause_found", "about": about, "followers": groups, **found, **more})
        await sees(pilot, "A Python exception ended it", f"logs/rank-00006.err, byte {at}", "then ranks 0-2")
        await until(pilot, lambda: "bye" in text(app))
        await pilot.press("E")
        await until(pilot, lambda: "warming up" in text(app))
        tile = board_of(app).tile
        assert tile is not None
        assert (tile.target, tile.stream) == (Target(6), Stream.ERR)
        assert tile.view.hit is not None
        assert tile.view.hit.data == b"ValueError: the loss is not a number"


async def test_of_a_rank_without_stderr_the_output_comes_up(place: Path) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "step 1")
        fail(record, app.engine.attach(record.id), 6, b"")
        await until(pilot, lambda: (Target(6), Stream.OUT) in shown(app))


@pytest.mark.parametrize("keys", ["enter", "down enter", "o", "k", "s"])
async def test_tiles_that_a_person_chose_stay(place: Path, keys: str) -> None:
    record = running(place)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "step 1")
        if keys == "enter":
            await pilot.press("5", "enter")
        elif keys in ("o", "k"):
            await pilot.press("tab", keys)
        else:
            await pilot.press(*keys.split())
        await pilot.pause()
        before = shown(app)
        fail(record, app.engine.attach(record.id), 6, b"ValueError: bad\n")
        await sees(pilot, "rank 6 on n2 failed")
        assert shown(app) == before


async def test_it_comes_up_once(place: Path) -> None:
    """Whoever then looks elsewhere is not called back."""
    record = running(place)
    app = deck(place, record.id, now=NOW)
    live = app.engine.attach(record.id)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "step 1")
        fail(record, live, 6, b"ValueError: bad\n")
        await until(pilot, lambda: (Target(6), Stream.ERR) in shown(app))
        grid = app.screen.query_one(RankGrid)
        grid.go_to(1)
        live.apply({"ev": "complete", "t": BEGIN + 70})
        await pilot.pause(0.6)
        assert grid.cursor == 1


def explained(record: Record, *, rank: int | None, log: str, stream: str, proof_rank: int | None) -> None:
    """A recorded cause, with the line that proves it at the beginning of a log."""
    proof = {"text": "ValueError: bad", "log": log, "offset": 0, "rank": proof_rank, "stream": stream}
    found = {"rank": rank, "node": "n2", "kind": "exit", "message": "ValueError: bad", "proofs": [proof]}
    about = {"node": "n2", "kind": "exit", "rank": rank}
    more = {"reason": "exception", "said": "a Python exception ended it"}
    happen(record, [{"ev": "cause_found", "t": BEGIN + 62, "about": about, **found, **more}])


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
@pytest.mark.parametrize("stream", ["out", "err"])
async def test_of_a_run_that_has_failed_the_telling_log_is_opened(
    place: Path, stream: str, size: tuple[int, int]
) -> None:
    """Not the first ranks', and not the other stream beside it, which would take its rows."""
    record = running(place)
    happen(record, ended(record, {6: 1}, first_seq=6))
    log(record, 6, b"ValueError: bad\n", stream)
    explained(record, rank=6, log=f"rank-00006.{stream}", stream=stream, proof_rank=6)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, f"exit 1 · {stream}", "ValueError: bad")
        assert shown(app)[0] == (Target(6), Stream(stream))
        assert len(shown(app)) == 1
        assert app.screen.query_one(RankGrid).cursor == 6


async def test_of_an_ended_run_nothing_is_paused(place: Path) -> None:
    """The word is for a log that may grow below what is in view."""
    record = running(place)
    happen(record, ended(record, {6: 1}, first_seq=6))
    log(record, 6, b"ValueError: bad\n", "err")
    explained(record, rank=6, log="rank-00006.err", stream="err", proof_rank=6)
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=SIZE) as pilot:
        await sees(pilot, "exit 1 · err", "ValueError: bad")
        await pilot.press("E")
        await sees(pilot, "END")
        assert "PAUSED" not in text(app)


def test_the_frames_nearest_to_the_error_are_shown() -> None:
    frames = ["Traceback (most recent call last):"]
    for name in ("main", "load"):
        frames += [f'  File "train.py", line 9, in {name}', f"    call_{name}()", "    ~~~~^^^^^"]
    evidence = ("rank 2 ended with status 1", *frames, "KeyError: 'x'", "after it")
    cause = Cause(2, "n2", CauseKind.EXIT, "KeyError: 'x'", evidence)
    assert causes.evidence(cause, 2) == ['  File "train.py", line 9, in load', "    call_load()"]
    assert causes.evidence(cause, 0) == []
    assert causes.evidence(cause, 99)[-1] == "after it"
    assert causes.evidence(cause, 99)[0] == "rank 2 ended with status 1"
    assert "KeyError: 'x'" not in causes.evidence(cause, 99)
