"""Logs of many ranks read while they grow: from which moment, what waits, and what comes when."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_runs import growing
from rankdeck_runs.growing import GrowingLogs
from rankdeck_runs.time_index import TimeIndex
from rankdeck_runs.timeline import TimedLine, TimedLog


def log_of(folder: Path, rank: int, lines: int, *, width: int = 10, first: float = 100.0) -> TimedLog:
    """A log with a line a second."""
    text = "".join(f"{rank} {number}".ljust(width - 1) + "\n" for number in range(lines))
    rows = "".join(f"{first + number} {width * (number + 1)} 0\n" for number in range(lines))
    (folder / f"{rank}.out").write_text(text)
    (folder / f"{rank}.times").write_text(rows)
    return TimedLog(folder / f"{rank}.out", folder / f"{rank}.times", "out", 0.0, rank)


def all_of(logs: GrowingLogs, *, ended: bool = False) -> list[TimedLine]:
    found: list[TimedLine] = []
    while lines := logs.more(ended=ended):
        found += lines
    return found


def told(lines: list[TimedLine]) -> list[str]:
    return [line.line.data.decode().strip() for line in lines]


def test_at_first_in_the_order_of_time_then_as_they_come(tmp_path: Path) -> None:
    logs = GrowingLogs([log_of(tmp_path, 0, 3), log_of(tmp_path, 1, 3, first=100.5)])
    assert told(all_of(logs)) == ["0 0", "1 0", "0 1", "1 1", "0 2", "1 2"]
    assert logs.begin is None
    with (tmp_path / "0.out").open("a") as file, (tmp_path / "0.times").open("a") as times:
        file.write("more\n")
        times.write("200.0 35 0\n")
    assert [(line.seconds, line.line.data) for line in all_of(logs)] == [(200.0, b"more")]
    assert all_of(logs) == []


def test_of_large_logs_all_are_read_from_one_moment_on(tmp_path: Path) -> None:
    """Else the ends of logs would stand beside nothing of the others."""
    large, small = log_of(tmp_path, 0, 1000), log_of(tmp_path, 1, 50, first=1080.0)
    also = log_of(tmp_path, 2, 20)
    logs = GrowingLogs([large, small, also], most=3_000)
    lines = all_of(logs)
    assert logs.begin is not None
    assert 995.0 <= logs.begin <= 1000.0
    first = {rank: [line.seconds for line in lines if line.log.rank == rank] for rank in range(3)}
    assert first[0] == [float(second) for second in range(int(logs.begin), 1100)]
    assert len(first[1]) == 50
    assert len(first[2]) <= 1, "it was silent long before"


def test_a_large_log_without_times_is_read_from_its_end(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0, 1000)
    log.index.unlink()
    lines = all_of(GrowingLogs([log], most=1_000), ended=True)
    assert told(lines)[-1] == "0 999"
    assert 90 <= len(lines) <= 110


def test_bytes_wait_for_their_times_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path, 0, 2)
    logs = GrowingLogs([log])
    all_of(logs)
    with log.log.open("a") as file:
        file.write("late\n")
    assert all_of(logs) == []
    monkeypatch.setattr(growing, "PATIENCE", -1.0)
    assert [(line.seconds, line.line.data) for line in all_of(logs)] == [(101.0, b"late")]


def test_a_line_without_its_end_waits_for_the_runs_end(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0, 1)
    with log.log.open("a") as file, log.index.open("a") as times:
        file.write("half")
        times.write("101.0 14 0\n")
    logs = GrowingLogs([log])
    assert told(all_of(logs)) == ["0 0"]
    assert told(all_of(logs, ended=True)) == ["half"]


def test_a_long_index_does_not_stay_in_memory(tmp_path: Path) -> None:
    log = log_of(tmp_path, 0, 5_000)
    index = TimeIndex(log.index, "out")
    index.read_on()
    index.forget(49_000)
    assert index.at(49_010) == 5_000.0
    assert index.size == 50_000
    assert len(index._times) <= 101
    with log.index.open("a") as times:
        times.write("6000.0 60000 0\n7000.0 70")
    index.read_on()
    assert index.at(60_000) == 6_000.0
    assert index.size == 60_000
    with log.index.open("a") as times:
        times.write("000 0\n")
    index.read_on()
    assert index.at(70_000) == 7_000.0
