"""Times, ranks, tails and colours: the small parts that print and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdeck_runs.sanitise import clean
from rankdeck_runs.states import NodeStatus, RankState, RankStatus, RunSnapshot, RunState, SweptProcess
from rankdeck_tui import words
from rankdeck_tui.cli import wording
from rankdeck_tui.cli.ansi import coloured
from rankdeck_tui.cli.tail import LONGEST_LINE, Tail
from rankdeck_tui.rank_choice import RankSetError, chosen


def test_times_that_no_calendar_holds() -> None:
    assert words.moment(1e30) == "-"
    assert wording.unix("yesterday") is None
    assert wording.unix("1970-01-01T00:01:00.000000Z") == 60.0


def of_eight() -> RunSnapshot:
    """Eight ranks on two nodes; rank 5 failed."""
    ranks = tuple(
        RankStatus(rank, f"n{rank // 4}.lan", rank % 4, RankState.FAILED if rank == 5 else RankState.STOPPED)
        for rank in range(8)
    )
    nodes = tuple(NodeStatus(f"n{node}.lan", node, "10.0.0.1") for node in range(2))
    return RunSnapshot("r", RunState.FAILED, "p", "pytorch", "pool", "ssh", 8, nodes, ranks)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0,3-5, 4", (0, 3, 4, 5)),
        ("node:n1", (4, 5, 6, 7)),
        ("node: n0.lan", (0, 1, 2, 3)),
        ("failed", (5,)),
        (" all ", tuple(range(8))),
    ],
)
def test_ranks(text: str, ranks: tuple[int, ...]) -> None:
    assert chosen(text, of_eight()) == ranks


def test_ranks_in_words() -> None:
    assert words.as_ranges([5, 3, 4, 0, 4]) == "0,3-5"
    assert words.as_ranges([]) == "none"


@pytest.mark.parametrize(
    "text", ["", "a", "1,", "1-", "-1", "5-3", "8", "0-99999999999999", "1.5", "٣", "node:n2", "node:"]
)
def test_what_is_no_choice_of_ranks(text: str) -> None:
    with pytest.raises(RankSetError) as caught:
        chosen(text, of_eight())
    assert f"ranks {text!r}" in caught.value.message


def test_a_tail_gives_each_line_once_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert list(tail.lines()) == []
    log.write_bytes(b"one\ntw")
    assert list(tail.lines()) == [b"one"]
    with log.open("ab") as file:
        file.write(b"o\n\nthree")
    assert list(tail.lines()) == [b"two", b""]
    assert list(tail.last_line()) == [b"three"]
    assert list(tail.last_line()) == []


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (2 * LONGEST_LINE + 10))
    tail = Tail(log)
    lines = [*tail.lines(), *tail.last_line()]
    assert b"".join(lines) == log.read_bytes()
    assert max(map(len, lines)) == LONGEST_LINE


def test_colours_are_written_anew() -> None:
    line = clean(b"\x1b[1;31mred\x1b[0m \x1b[38;5;208mor\x1b[48;2;1;2;3mange\x1b[m \x1b]0;title\x07end")
    assert coloured(line) == (
        "\x1b[1;31mred\x1b[0m \x1b[38;5;208mor\x1b[0m\x1b[38;5;208;48;2;1;2;3mange\x1b[0m end"
    )


def test_swept_processes_are_counted_by_node_and_rank() -> None:
    swept = [
        *(SweptProcess("n1", pid, "python train.py", 3) for pid in (10, 11, 12, 13)),
        SweptProcess("n2", 20, "sleep 600"),
    ]
    assert words.swept(swept) == [
        "ended on n1: 4 left-over processes of rank 3",
        "ended on n2: 1 left-over process",
    ]
