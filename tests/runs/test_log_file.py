from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_runs import logs
from rankdeck_runs.logs import LONGEST_LINE, LogFile, split


@pytest.fixture
def log(tmp_path):
    return LogFile(tmp_path / "rank-00000.out")


def texts(lines):
    return [line.data for line in lines]


def test_no_file_is_an_empty_one(log):
    assert log.size == 0
    assert log.after(0, 10) == []
    assert log.before(100, 10) == []
    assert log.search(re.compile(b"x"), 0) is None


def test_lines_have_their_offsets(log):
    log.path.write_bytes(b"one\ntwo\r\n\nlast")
    lines = log.after(0, 10)
    assert [(line.offset, line.end, line.data) for line in lines] == [
        (0, 4, b"one"),
        (4, 9, b"two"),
        (9, 10, b""),
        (10, 14, b"last"),
    ]
    assert log.after(4, 1) == lines[1:2]
    assert log.before(log.size, 2) == lines[2:]
    assert log.before(9, 1) == lines[1:2]
    assert log.before(10**9, 9) == lines
    assert log.before(0, 5) == []


def test_a_big_file_is_read_in_windows(log):
    count = 100_000
    log.path.write_bytes(b"".join(b"line %d\n" % number for number in range(count)))
    assert texts(log.before(log.size, 2)) == [b"line 99998", b"line 99999"]
    forwards = log.after(0, count + 1)
    assert len(forwards) == count
    assert log.before(log.size, count + 1) == forwards


def test_an_overlong_line_comes_in_pieces_and_holds_up_nothing(log):
    log.path.write_bytes(b"first\n" + b"x" * (LONGEST_LINE * 9 + 5) + b"\nlast\n")
    lines = log.after(0, 100)
    assert texts(lines)[0] == b"first"
    assert texts(lines)[-1] == b"last"
    assert len(lines) == 12
    assert max(len(line.data) for line in lines) == LONGEST_LINE
    assert b"".join(texts(lines)[1:-1]) == b"x" * (LONGEST_LINE * 9 + 5)
    assert texts(log.before(log.size, 1)) == [b"last"]


def test_a_line_of_just_the_limit_is_one_line(log):
    log.path.write_bytes(b"x" * LONGEST_LINE + b"\ny\n")
    assert texts(log.after(0, 9)) == [b"x" * LONGEST_LINE, b"y"]


def test_paging_forwards_meets_every_byte_once(log):
    log.path.write_bytes(b"".join(b"%d" % n * (n % 50) + b"\n" for n in range(5000)))
    position, seen = 0, []
    while lines := log.after(position, 37):
        seen += lines
        position = lines[-1].end
    assert position == log.size
    assert all(a.end == b.offset for a, b in pairwise(seen))


def test_a_truncated_file_reads_as_what_it_is_now(log):
    log.path.write_bytes(b"one\ntwo\nthree\n")
    end = log.size
    log.path.write_bytes(b"new\n")
    assert log.after(end, 5) == []
    assert texts(log.before(end, 5)) == [b"new"]


def test_search_goes_both_ways(log):
    log.path.write_bytes(b"".join(b"step %d\n" % n for n in range(60_000)))
    found = log.search(re.compile(rb"step 50000\b"), 0)
    assert found is not None
    assert found.data == b"step 50000"
    assert log.search(re.compile(rb"step 7\b"), found.offset, backwards=True).data == b"step 7"
    assert log.search(re.compile(rb"step 50000\b"), found.end) is None
    assert log.search(re.compile(rb"step 59999\b"), log.size, backwards=True).offset == log.size - 11
    assert log.search(re.compile(rb"step 59999\b"), 0, limit=1000) is None


@given(st.lists(st.binary(max_size=9), max_size=30), st.booleans())
def test_pieces_cover_what_they_say(parts, last):
    data = b"\n".join(parts)
    lines, used = split(data, 100, last=last)
    assert sum(line.end - line.offset for line in lines) == used
    assert used == (len(data) if last else data.rfind(b"\n") + 1)
    assert all(b"\n" not in line.data for line in lines)
    rest = b"".join(data[line.offset - 100 : line.end - 100] for line in lines)
    assert rest == data[:used]


def test_the_window_holds_several_of_the_longest_lines():
    # Else a window could hold no whole line, and reading would not get on.
    assert logs._WINDOW >= 2 * LONGEST_LINE
