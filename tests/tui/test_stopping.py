"""How a stop that is under way is told: who is left, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_runs.record import Record
from rankdeck_runs.states import NodeState, RankState, RunSnapshot
from rankdeck_runs.stopping import StopProgress
from rankdeck_tui import stops
from tui.deck import deck, rows, sees, until
from tui.records import BEGIN, happen, log, started, write_run

NOW = BEGIN + 125


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (3.0, "SIGKILL in 3 s"),
        (2.9, "SIGKILL in 3 s"),
        (2.01, "SIGKILL in 3 s"),
        (2.0, "SIGKILL in 2 s"),
        (0.01, "SIGKILL in 1 s"),
        (59.2, "SIGKILL in 1:00"),
        (66.5, "SIGKILL in 1:07"),
        (0.0, "SIGKILL sent"),
        (-7.0, "SIGKILL sent"),
    ],
)
def test_the_countdown_begins_with_the_whole_grace_and_never_says_0(left: float, said: str) -> None:
    assert stops.countdown(left) == said


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (((3, 10), (7, 11)), "ranks 3, 7 on n2: SIGKILL in 6 s"),
        (((3, 10),), "rank 3 on n2: SIGKILL in 6 s"),
        (((4, 1), (5, 2), (6, 3), (None, 4)), "ranks 4-6 and 1 other process on n2: SIGKILL in 6 s"),
        (((None, 4), (None, 5)), "2 processes on n2: SIGKILL in 6 s"),
        ((), "n2: gone"),
    ],
)
def test_who_is_left_is_named(left: tuple[tuple[int | None, int], ...], said: str) -> None:
    assert stops.left_on(StopProgress("n2", left, 5.4)) == said


def test_thousands_of_ranks_are_still_one_line() -> None:
    left = tuple((rank, 1000 + rank) for rank in range(0, 4000, 2))
    assert stops.left_on(StopProgress("n2", left, 5.4)).startswith("ranks 0, 2, 4,")
    assert len(stops.left_on(StopProgress("n2", left, 5.4))) < 100


def test_forced_there_is_nothing_to_count() -> None:
    assert stops.left_on(StopProgress("n2", ((3, 10),), 5.4), forced=True) == "rank 3 on n2: SIGKILL sent"


STOPPING = {"ev": "stopping", "seq": 6, "why": "asked", "rank": None, "signal": "TERM", "grace": 60.0}


def running(place: Path) -> Record:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa", per_node=4)
    happen(record, started(record, per_node=4))
    log(record, 0, b"step 1\n")
    return record


def snapshot_of(record: Record) -> RunSnapshot:
    return record.fold().snapshot()


def test_only_ranks_that_go_on_although_their_node_stops_are_stopping(place: Path) -> None:
    record = running(place)
    assert stops.kill_times(snapshot_of(record)) == {}
    happen(record, [{**STOPPING, "node": "n2", "t": NOW}])
    gone = {"ev": "rank_ended", "seq": 7, "node": "n2", "rank": 5, "signal": "TERM", "asked": True}
    happen(record, [{**gone, "t": NOW + 1}])
    snapshot = snapshot_of(record)
    kills = stops.kill_times(snapshot)
    assert kills == dict.fromkeys((4, 6, 7), NOW + 60)
    shown = [stops.state_of(rank, kills) for rank in snapshot.ranks]
    assert shown == [
        *[RankState.RUNNING] * 4,
        NodeState.STOPPING,
        RankState.STOPPED,
        *[NodeState.STOPPING] * 2,
    ]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_grace_is_counted_down_for_each_rank(place: Path, size: tuple[int, int]) -> None:
    record = running(place)
    now = [NOW]
    app = deck(place, record.id)
    app.now = lambda: now[0]  # type: ignore[method-assign]
    live = app.engine.attach(record.id)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "R running 8")
        live.apply({**STOPPING, "node": "n2", "t": NOW - 15})
        await sees(pilot, "R running 4", "E stopping 4")
        await pilot.press("5")
        for left in (45, 44):
            countdown = f"SIGKILL in {left} s"
            await until(pilot, lambda wanted=countdown: wanted in rows(app)[0])  # type: ignore[misc]
            await sees(pilot, f"rank 5 · n2:1 · ◑ stopping · {countdown}")
            grid = [row for row in rows(app) if row.startswith("│ n")]
            assert countdown not in grid[0]
            assert countdown in grid[1], "n2 in the grid"
            now[0] += 1.0


async def test_where_it_is_narrow_the_id_gives_way_and_the_countdown_stays(place: Path) -> None:
    name = "20261118-102640-a-profile-with-a-very-long-name-of-its-own-aaaa"
    record = write_run(place / "home", name)
    happen(record, [*started(record), {**STOPPING, "seq": 4, "node": "n1", "t": NOW - 15}])
    app = deck(place, record.id, now=NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        await sees(pilot, "SIGKILL in 45 s")
        first = rows(app)[0]
        assert "SIGKILL in 45 s" in first
        assert "…" in first
        assert "own-aaaa" in first
        assert "2 links up" in first
