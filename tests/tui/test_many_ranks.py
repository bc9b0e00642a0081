"""The lines of many ranks in one view: by time, folded, filtered, searched, growing; on real files."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rankdeck_runs.timeline import TimedLog, merged
from rankdeck_tui.logs import merged as merged_module
from rankdeck_tui.logs.folded import FoldedLog
from rankdeck_tui.logs.headed import place
from rankdeck_tui.logs.merged import MergedLog
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.logs.source import Log
from rankdeck_tui.logs.view import LogView
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import UNICODE
from rankdeck_tui.look.ink import in_colour

LOOK = Look(in_colour(), UNICODE)


class Ranks:
    """Ranks that write."""

    def __init__(self, folder: Path, count: int) -> None:
        self.logs = [
            TimedLog(
                folder / f"{rank}.{stream}", folder / f"{rank}.times", stream, 0.0, rank, f"n{rank // 2 + 1}"
            )
            for rank in range(count)
            for stream in ("out", "err")
        ]
        self.ended = False
        self._views: list[LogView] = []

    def write(self, rank: int, seconds: float | None, text: str, stream: str = "out") -> None:
        """Add text to a log; with None for the time its node has not told yet when that was."""
        out, err = self.logs[2 * rank : 2 * rank + 2]
        with (out if stream == "out" else err).log.open("a") as file:
            file.write(text)
        if seconds is not None:
            sizes = [log.log.stat().st_size if log.log.exists() else 0 for log in (out, err)]
            with out.index.open("a") as file:
                file.write(f"{seconds:.3f} {sizes[0]} {sizes[1]}\n")

    def view(self, log: Log) -> LogView:
        """A view that is closed at the test's end."""
        self._views.append(LogView(log))
        return self._views[-1]

    def merged(self) -> LogView:
        return self.view(MergedLog(self.logs, lambda: self.ended))

    def folded(self, *, odd_only: bool = False) -> LogView:
        ranks = tuple(range(len(self.logs) // 2))
        return self.view(FoldedLog(self.logs, ranks, lambda: self.ended, odd_only=odd_only))

    def close(self) -> None:
        for view in self._views:
            view.close()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    some = Ranks(tmp_path, 4)
    yield some
    some.close()


def shown(view: LogView, width: int = 60, height: int = 20) -> list[str]:
    view.tick()
    return [strip.text.rstrip() for strip in view.rows(width, height, LOOK)]


def texts(view: LogView, width: int = 60, height: int = 20) -> list[str]:
    """What stands behind the heads."""
    return [row.partition("│")[2] for row in shown(view, width, height)]


def wait(wanted: Sequence[str], look: Callable[[], Sequence[str]], limit: float = 30.0) -> None:
    deadline = time.monotonic() + limit
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"not within {limit} s, but {found}"
        time.sleep(0.01)


def test_lines_by_time_with_node_rank_and_stream(ranks: Ranks) -> None:
    ranks.write(0, 10.0, "one\n")
    ranks.write(3, 11.0, "two\n", "err")
    ranks.write(0, 12.5, "three\n")
    view = ranks.merged()
    rows = ["00:00:10.0 n1:0  │one", "00:00:11.0 n2:3 E│two", "00:00:12.5 n1:0  │three"]
    wait(rows, lambda: shown(view))


def test_nodes_are_told_apart_whatever_they_are_called() -> None:
    assert place("127.0.0.2", 5, 11) == "127.0.0.2:5"
    assert place("gpu017.cluster.example", 3, 11) == "gpu017:3   "
    assert place("very-long-rack-12-node-0042", 100, 14) == "-node-0042:100"


def test_a_late_line_takes_its_place_without_moving_what_is_in_view(ranks: Ranks) -> None:
    for step in range(40):
        ranks.write(0, 10.0 + step, f"step {step}\n")
    view = ranks.merged()
    wait([f"step {n}" for n in range(35, 40)], lambda: texts(view, height=5))
    view.scroll(-10, LOOK)
    here = texts(view, height=5)
    ranks.write(1, 12.5, "late\n")
    view.to_start()
    wait(["step 0", "step 1", "step 2", "late", "step 3"], lambda: texts(view, height=5))
    view.scroll(26, LOOK)
    assert texts(view, height=5) == here


def test_it_follows_a_run_and_counts_what_came_meanwhile(ranks: Ranks) -> None:
    ranks.write(0, 10.0, "a\nb\nc\n")
    view = ranks.merged()
    wait(["b", "c"], lambda: texts(view, height=2))
    view.scroll(-1, LOOK)
    ranks.write(1, 11.0, "d\n")
    wait(["1"], lambda: (view.tick(), [str(view.behind.lines)])[1])
    assert texts(view, height=2) == ["a", "b"]
    view.to_end()
    wait(["c", "d"], lambda: texts(view, height=2))


def test_an_unfinished_line_waits_for_its_end_and_is_there_when_the_run_has_ended(ranks: Ranks) -> None:
    ranks.write(0, 10.0, "whole\npart")
    view = ranks.merged()
    wait(["whole"], lambda: texts(view))
    ranks.ended = True
    wait(["whole", "part"], lambda: texts(view))


def test_lines_whose_times_never_come_are_shown_all_the_same(ranks: Ranks) -> None:
    ranks.write(0, None, "no time\n")
    view = ranks.merged()
    wait(["--:--:--.- n1:0  │no time"], lambda: shown(view))


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nKeyError: {}\n'


def test_a_traceback_that_comes_in_pieces_stays_whole(ranks: Ranks) -> None:
    lines = TRACEBACK.format("'a'").splitlines(keepends=True)
    ranks.write(0, 10.0, lines[0], "err")
    ranks.write(1, 10.5, "between\n")
    view = ranks.merged()
    wait([lines[0].strip(), "between"], lambda: texts(view))
    ranks.write(0, 11.0, "".join(lines[1:]), "err")
    wait([*"".join(lines).splitlines(), "between"], lambda: texts(view))


def test_filter_and_search_go_over_all_ranks(ranks: Ranks) -> None:
    for step in range(5000):
        ranks.write(step % 4, 10.0 + step, f"step {step}\n")
    view = ranks.merged()
    wait(["step 4999"], lambda: texts(view, height=1))
    view.set_filter(Pattern.parse("[05]00$"))
    wait([f"step {n}" for n in (4000, 4500)], lambda: texts(view, height=2))
    wait(["1.0"], lambda: [str(view.source.progress[1])])
    assert view.source.progress == (9, 1.0)
    ranks.write(2, 9000.0, "step 5000\nstep 5001\n")
    wait(["step 4500", "step 5000"], lambda: texts(view, height=2))
    view.set_filter(None)
    view.set_query(Pattern.parse("step 1234"))
    view.search(backwards=True)
    wait(["True"], lambda: (view.tick(), [str(view.hit is not None)])[1])
    assert "step 1234" in texts(view, height=5)
    assert not view.follow


def test_wrapping_keeps_what_stands_before_the_lines(ranks: Ranks) -> None:
    ranks.write(0, 10.0, "abcdefghij" * 3 + "\n")
    view = ranks.merged()
    wait(["abcdefghijabcdefghij"], lambda: texts(view, width=38))
    view.toggle_wrap()
    rows = shown(view, width=38)
    assert rows == ["00:00:10.0 n1:0  │abcdefghijabcdefghij", " " * 18 + "abcdefghij"]
    view.toggle_wrap()
    view.scroll_sideways(16)
    assert texts(view, width=38) == ["ghijabcdefghij"]


def test_the_order_is_that_of_the_engine_whatever_comes_when(tmp_path: Path) -> None:
    chance = random.Random(4)
    many = Ranks(tmp_path, 6)
    clock = [10.0] * 6
    view = many.merged()
    for number in range(600):
        rank = chance.randrange(6)
        clock[rank] += chance.random()
        many.write(rank, clock[rank], f"{number}\n" * chance.randrange(1, 4), chance.choice(("out", "err")))
        if number % 100 == 0:
            view.tick()
    many.ended = True
    wanted = [f"{found.log.rank} {found.line.data.decode()}" for found in merged(many.logs)]

    def all_lines() -> list[str]:
        view.tick()
        lines = view.source.after(0, 10_000)
        return [f"{getattr(line, 'rank', None)} {line.data.decode()}" for line in lines]

    try:
        wait(sorted(wanted), lambda: sorted(all_lines()))
        assert [line.split()[1] for line in all_lines()] == [line.split()[1] for line in wanted]
    finally:
        many.close()


def test_the_oldest_lines_go(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_module, "MOST_LINES", 50)
    monkeypatch.setattr(merged_module, "_SLACK", 10)
    for step in range(200):
        ranks.write(step % 4, 10.0 + step, f"step {step}\n")
    view = ranks.merged()
    wait(["step 199"], lambda: texts(view, height=1))
    view.to_start()
    wait(["step 150"], lambda: texts(view, height=1))


def test_folded_lines_say_who(ranks: Ranks) -> None:
    for rank in range(4):
        ranks.write(rank, 10.0, f"rank {rank} of 4\n")
        ranks.write(rank, 11.0 + rank / 10, TRACEBACK.format("'a'" if rank != 2 else "'b'"), "err")
    ranks.ended = True
    view = ranks.folded()
    rows = [
        "00:00:10.0 4/4  │rank 0..3 of 4",
        "00:00:11.0 3/4 E│ranks 0-1,3",
        *[f"               E│{line}" for line in TRACEBACK.format("'a'").splitlines()],
        "00:00:11.2 1/4 E│rank 2",
        *[f"               E│{line}" for line in TRACEBACK.format("'b'").splitlines()],
    ]
    wait(rows, lambda: shown(view))
    odd = ranks.folded(odd_only=True)
    wait(rows[1:], lambda: shown(odd))
    view.set_filter(Pattern.parse("KeyError: 'b'"))
    assert shown(view) == rows[5:]
    view.set_filter(Pattern.parse("!Traceback"))
    assert shown(view) == rows[:1]


def test_folded_lines_grow_in_place(ranks: Ranks) -> None:
    ranks.write(0, 10.0, "step 1\n")
    ranks.write(1, 10.0, "ready\n")
    view = ranks.folded()
    wait(["rank 0", "step 1", "rank 1", "ready"], lambda: texts(view))
    for rank in range(4):
        ranks.write(rank, 20.0, "step 2\n")
    wait(["step 1..2", "rank 1", "ready"], lambda: texts(view))
    assert shown(view)[0] == "00:00:10.0 4/4 x2  │step 1..2"


def test_a_traceback_of_a_run_that_hangs_is_folded_too(ranks: Ranks) -> None:
    ranks.write(0, 10.0, TRACEBACK.format("'a'"), "err")
    view = ranks.folded()
    wait(["rank 0", *TRACEBACK.format("'a'").splitlines()], lambda: texts(view))
