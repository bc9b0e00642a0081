"""The lines of many ranks in a run's dashboard: keys, choices, and the pane at the two sizes that matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_runs import growing
from rankdeck_runs.record import Record
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import ASCII
from rankdeck_tui.look.ink import without_colour
from tui import goldens
from tui.deck import deck, engine_of, rows, sees, text, until
from tui.records import BEGIN, ended, happen, log, started, write_run

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
NODES = ("n1", "n2", "n3", "n4")
ODD = 5


def run_of_16(place: Path, *, over: bool = True) -> Record:
    """16 ranks, of which all fail: 5 first, and of something else."""
    record = write_run(place / "home", "20261118-102640-llama-dddd", nodes=NODES, per_node=4)
    happen(record, started(record, per_node=4))
    for rank in range(16):
        out = f"rank {rank} of 16 on n{rank // 4 + 1}\n"
        out += "".join(f"step {step} loss {2 / (step + 1) + rank / 1000:.3f}\n" for step in range(8))
        error = (
            "torch.OutOfMemoryError: CUDA out of memory"
            if rank == ODD
            else f"DistBackendError: [Rank {rank}] closed"
        )
        err = f'Traceback (most recent call last):\n  File "/work/train.py", line 40\n    main()\n{error}\n'
        log(record, rank, out.encode())
        log(record, rank, err.encode(), "err")
        index = f"{BEGIN + 2} {len(out) // 2} 0\n{BEGIN + 3 + rank / 100} {len(out)} 0\n"
        index += f"{BEGIN + (9 if rank == ODD else 10 + rank / 100)} {len(out)} {len(err)}\n"
        log(record, rank, index.encode(), "times")
    if over:
        happen(record, ended(record, dict.fromkeys(range(16), 1), first_seq=6))
    return record


@SIZES
async def test_by_time_folded_and_the_odd_ones(place: Path, size: tuple[int, int]) -> None:
    app = deck(place, run_of_16(place).id, now=BEGIN + 125)
    async with app.run_test(size=size) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("m")
        await sees(pilot, "all ranks", "by time", "11:06:50.1 n4:15 E", "[Rank 15] closed")
        await goldens.check(app, f"merged-{size[0]}x{size[1]}", place)
        await pilot.press("f", "z")
        await sees(pilot, "folded", "ranks 0-4,6-15", "DistBackendError: [Rank 0..15] closed")
        await goldens.check(app, f"folded-{size[0]}x{size[1]}", place)
        await pilot.press("Z")
        await sees(pilot, "odd ones", "rank 5", "CUDA out of memory")
        assert "step" not in text(app)
        await pilot.press("Z")
        await sees(pilot, "folded", "step 0..7")
        await pilot.press("z")
        await sees(pilot, "by time")


async def test_whose_lines_is_chosen(place: Path) -> None:
    app = deck(place, run_of_16(place).id)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("M", *"node:n2", "enter")
        await sees(pilot, "node:n2 ranks", "n2:7")
        assert not any("n1:" in row.partition("│")[2] for row in rows(app) if "E│" in row)
        await pilot.press("M", *["backspace"] * 7, *"0,9-10", "enter", "o", "o")
        await sees(pilot, "ranks 0,9-10", "n3:10")
        await pilot.press("M", *["backspace"] * 6, *"77", "enter")
        await sees(pilot, "there is no rank 77", "ranks here: 0-15")
        await pilot.press("M", *["backspace"] * 6, *"failed", "enter", "slash", *"memory", "enter")
        await sees(pilot, "failed ranks", "CUDA out of memory", "/memory 1")


async def test_following_a_run(place: Path) -> None:
    record = run_of_16(place, over=False)
    app = deck(place, record.id)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("m")
        await sees(pilot, "FOLLOW", "[Rank 15] closed")
        assert "rank 1 ·" not in text(app), "tiles that nobody chose make room"
        live = engine_of(app).followed[record.id]
        await until(pilot, lambda: live.watched == live.timed == frozenset(range(16)))
        path = log(record, 3, b"one more\n")
        size, err = path.stat().st_size, path.with_suffix(".err").stat().st_size
        log(record, 3, f"{BEGIN + 20} {size} {err}\n".encode(), "times")
        await sees(pilot, "11:07:00.0 n1:3")
        await pilot.press("M", *["backspace"] * 3, *"failed", "enter")
        await sees(pilot, "No rank has failed.")
        happen(record, [])
        for event in ended(record, {2: 1}, first_seq=6)[:4]:
            live.apply(event)
        await sees(pilot, "n1:2", "[Rank 2] closed")


async def test_what_is_left_out_of_large_logs_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST_BYTES", 2_000)
    app = deck(place, run_of_16(place).id)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("m")
        await sees(pilot, "by time · since 11:06:5", "[Rank 15] closed")


async def test_without_colours_and_in_ascii(place: Path) -> None:
    app = deck(place, run_of_16(place).id, look=Look(without_colour(), ASCII))
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("m")
        await sees(pilot, "11:06:50.1 n4:15 E|DistBackendError: [Rank 15] closed")
        await pilot.press("z")
        await sees(pilot, "16/16 x8", "15/16 E|ranks 0-4,6-15")
        assert text(app).isascii()


async def test_folding_needs_many_ranks(place: Path) -> None:
    app = deck(place, run_of_16(place, over=False).id)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await sees(pilot, "Ranks 16")
        await pilot.press("tab", "z")
        await sees(pilot, "m shows them")
