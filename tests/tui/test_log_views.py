"""What part of a log is in view: following, scrolling, wrapping, filters and searches, on real files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rankdeck_runs.logs import LogFile
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.logs.source import FileLog, Filtered
from rankdeck_tui.logs.tiles import Stream, Target, Tile
from rankdeck_tui.logs.view import LogView
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import UNICODE
from rankdeck_tui.look.ink import in_colour

LOOK = Look(in_colour(), UNICODE)


def numbered(path: Path, count: int) -> FileLog:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(count)))
    return FileLog(path)


def shown(view: LogView, width: int = 20, height: int = 5) -> list[str]:
    view.tick()
    return [strip.text.rstrip() for strip in view.rows(width, height, LOOK)]


def wait(condition: Callable[[], object], limit: float = 30.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.01)


@pytest.fixture
def view(tmp_path: Path) -> LogView:
    return LogView(numbered(tmp_path / "log", 100))


def test_it_follows_what_is_added(view: LogView, tmp_path: Path) -> None:
    assert shown(view) == [f"line {n}" for n in range(95, 100)]
    with (tmp_path / "log").open("ab") as file:
        file.write(b"line 100\n")
    assert view.tick()
    assert shown(view)[-1] == "line 100"
    assert not view.tick()


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    view = LogView(FileLog(tmp_path / "later"))
    assert shown(view) == []
    (tmp_path / "later").write_bytes(b"here\n")
    assert view.tick()
    assert shown(view) == ["here"]


def test_scrolling_up_pauses_and_stays_while_lines_come(view: LogView, tmp_path: Path) -> None:
    shown(view)
    view.scroll(-3, LOOK)
    assert shown(view) == [f"line {n}" for n in range(92, 97)]
    with (tmp_path / "log").open("ab") as file:
        file.write(b"more\n" * 7)
    assert shown(view) == [f"line {n}" for n in range(92, 97)]
    assert not view.follow
    assert view.behind.lines == 7


def test_scrolling_down_past_the_end_follows_again(view: LogView) -> None:
    shown(view)
    view.scroll(-3, LOOK)
    view.scroll(2, LOOK)
    assert not view.follow
    assert shown(view)[-1] == "line 98"
    view.scroll(5, LOOK)
    assert view.follow
    assert shown(view)[-1] == "line 99"


def test_up_and_down_by_the_same_number_ends_where_it_began(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"".join(b"%d " % n + b"x" * (n * 7 % 90) + b"\n" for n in range(60)))
    view = LogView(FileLog(tmp_path / "log"))
    view.toggle_wrap()
    shown(view)
    view.scroll(-20, LOOK)
    before = shown(view)
    for step in (1, 3, 7, 15):
        view.scroll(-step, LOOK)
        view.scroll(step, LOOK)
        assert shown(view) == before, step


def test_to_the_start(view: LogView) -> None:
    shown(view)
    view.to_start()
    assert shown(view) == [f"line {n}" for n in range(5)]
    view.scroll(-10, LOOK)
    assert shown(view)[0] == "line 0"


def test_wrapping_shows_all_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"first\n" + b"abcdefghij" * 3 + b"\n")
    view = LogView(FileLog(tmp_path / "log"))
    assert shown(view, 12) == ["first", "abcdefghijab"]
    view.toggle_wrap()
    assert shown(view, 12) == ["first", "abcdefghijab", "cdefghijabcd", "efghij"]
    assert shown(view, 12, 2) == ["cdefghijabcd", "efghij"]


def test_a_line_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"y" * 1_000_000 + b"\nend\n")
    view = LogView(FileLog(tmp_path / "log"))
    assert shown(view)[-1] == "end"


def test_sideways(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"0123456789abcdef\n")
    view = LogView(FileLog(tmp_path / "log"))
    view.scroll_sideways(10)
    assert shown(view, 8) == ["abcdef"]
    view.scroll_sideways(-99)
    assert shown(view, 8) == ["01234567"]


def test_a_filter_shows_matching_lines_and_takes_new_ones(view: LogView, tmp_path: Path) -> None:
    view.set_filter(Pattern.parse("7$"))
    wait(lambda: shown(view) == ["line 57", "line 67", "line 77", "line 87", "line 97"])
    with (tmp_path / "log").open("ab") as file:
        file.write(b"line 107\nline 108\n")
    wait(lambda: shown(view)[-1] == "line 107")
    view.scroll(-2, LOOK)
    assert shown(view)[0] == "line 47"
    view.set_filter(None)
    view.to_end()
    assert shown(view)[-1] == "line 108"


def test_an_inverted_filter(view: LogView) -> None:
    view.set_filter(Pattern.parse("!9"))
    wait(lambda: shown(view)[-1:] == ["line 88"])
    view.close()


def test_a_filter_looks_at_a_last_line_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo err")
    source = Filtered(LogFile(path), Pattern.parse("err") or pytest.fail("no pattern"))
    wait(lambda: [line.data for line in source.before(source.size, 9)] == [b"two err"])
    with path.open("ab") as file:
        file.write(b"or\nthree\n")
    wait(lambda: [line.data for line in source.before(source.size, 9)] == [b"two error"])
    wait(lambda: source.share == 1.0)
    source.close()


def test_search_goes_from_hit_to_hit(view: LogView) -> None:
    shown(view)
    view.set_query(Pattern.parse("line 2.$", invertible=False))
    view.search(backwards=True)
    wait(lambda: (view.tick(), not view.searching)[1])
    assert view.hit is not None
    assert view.hit.data == b"line 29"
    assert "line 29" in shown(view)
    view.search(backwards=True)
    wait(lambda: (view.tick(), not view.searching)[1])
    assert view.hit.data == b"line 28"
    view.search(backwards=False)
    wait(lambda: (view.tick(), not view.searching)[1])
    assert view.hit.data == b"line 29"
    view.search(backwards=False)
    wait(lambda: (view.tick(), not view.searching)[1])
    assert view.no_hit == "no more hits below"


@pytest.mark.parametrize(
    ("typed", "line", "kept"),
    [
        ("loss", "step 1 LOSS 2", True),
        ("LOSS", "step 1 loss 2", False),
        ("!loss", "step 1 loss 2", False),
        ("loss [0-9]", "loss 7", True),
        ("[unclosed", "an [unclosed one", True),
        ("(", "f(x)", True),
        ("a{99999999999}", "a{99999999999}", True),
    ],
)
def test_patterns(typed: str, line: str, kept: bool) -> None:
    pattern = Pattern.parse(typed)
    assert pattern is not None
    assert pattern.keeps(line) is kept


@pytest.mark.parametrize("typed", ["", "!"])
def test_nothing_typed_is_no_pattern(typed: str) -> None:
    assert Pattern.parse(typed) is None


def test_a_tile_goes_on_with_the_newest_attempt(tmp_path: Path) -> None:
    attempt = 1

    def locate(target: Target, stream: str) -> Path:
        return tmp_path / f"{target.rank}.{attempt}.{stream}"

    for number in (1, 2):
        numbered(tmp_path / f"3.{number}.out", number)
    tile = Tile(Target(rank=3), Stream.OUT, locate)
    tile.view.wrap = True
    tile.look_again()
    first = tile.view
    assert shown(first) == ["line 0"]
    attempt = 2
    tile.look_again()
    assert tile.view is not first
    assert tile.view.wrap
    assert shown(tile.view) == ["line 0", "line 1"]
    tile.close()


TRACEBACK = [
    "Traceback (most recent call last):",
    *[f"  frame {n}" for n in range(4)],
    "KeyError: 'shard-00317'",
]


def crashed(path: Path, before: int, after: int) -> tuple[LogView, int]:
    """A log with a traceback in it, not painted yet, and where the error's line begins."""
    words = [f"step {n}" for n in range(before)] + TRACEBACK + [f"bye {n}" for n in range(after)]
    path.write_text("\n".join(words) + "\n")
    return LogView(FileLog(path)), path.read_bytes().index(b"KeyError")


@pytest.mark.parametrize("wrap", [False, True])
def test_a_shown_line_stands_low_with_what_led_to_it_in_view(tmp_path: Path, wrap: bool) -> None:
    view, offset = crashed(tmp_path / "log", 500, 500)
    view.wrap = wrap
    view.show_line(offset)  # before anything was painted: the height is not known yet
    rows = shown(view, 40, 12)
    assert rows.index(TRACEBACK[-1]) == 8
    assert rows[3:9] == TRACEBACK
    view.scroll(1, LOOK)
    assert shown(view, 40, 12)[2:8] == TRACEBACK


def test_long_lines_above_a_shown_line_do_not_push_it_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{n} " + "x" * 95 + "\n" for n in range(50)) + "the error\n")
    view = LogView(FileLog(path))
    view.wrap = True
    view.show_line(path.read_bytes().index(b"the error"))
    rows = shown(view, 40, 12)
    assert rows[-1] == "the error"
    assert len(rows) == 12


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_shown_line_near_the_end_leaves_no_row_blank(tmp_path: Path, after: int) -> None:
    view, offset = crashed(tmp_path / "log", 500, after)
    view.show_line(offset)
    rows = shown(view, 40, 12)
    assert len(rows) == 12
    assert rows[-1] == (f"bye {after - 1}" if after else TRACEBACK[-1])
    assert set(TRACEBACK) < set(rows)


@pytest.mark.parametrize("before", [0, 3])
def test_a_short_log_is_never_scrolled_off(tmp_path: Path, before: int) -> None:
    view, offset = crashed(tmp_path / "log", before, 0)
    shown(view, 40, 12)
    view.show_line(offset)
    assert shown(view, 40, 12) == [f"step {n}" for n in range(before)] + TRACEBACK


def test_a_hit_in_a_short_log_scrolls_nothing_off(tmp_path: Path) -> None:
    view, _ = crashed(tmp_path / "log", 3, 0)
    shown(view, 40, 12)
    view.set_query(Pattern.parse("KeyError"))
    view.search(backwards=True)
    wait(lambda: view.tick() and not view.searching)
    assert shown(view, 40, 12)[-1] == TRACEBACK[-1]
    assert len(shown(view, 40, 12)) == 9
