"""Logs of many ranks in the order of time, by the indexes of their growth."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rankdeck_runs.timeline import TimedLog, merged


def timed(
    folder: Path, name: str, index: str | None, text: bytes, stream: str = "out", skew: float = 0.0
) -> TimedLog:
    log, times = folder / f"{name}.out", folder / f"{name}.times"
    log.write_bytes(text)
    if index is not None:
        times.write_text(index)
    return TimedLog(log, times, stream, skew)


def told(*logs: TimedLog) -> list[tuple[float | None, bytes]]:
    return [(found.seconds, found.line.data) for found in merged(logs)]


def test_lines_come_in_the_order_in_which_the_files_grew(tmp_path: Path) -> None:
    first = timed(tmp_path, "a", "10.0 4 0\n12.0 8 0\n", b"a 1\na 2\n")
    second = timed(tmp_path, "b", "11.0 4 0\n13.0 8 0\n", b"b 1\nb 2\n")
    assert told(first, second) == [(10.0, b"a 1"), (11.0, b"b 1"), (12.0, b"a 2"), (13.0, b"b 2")]


def test_a_clock_that_is_ahead_is_corrected(tmp_path: Path) -> None:
    first = timed(tmp_path, "a", "10.0 4 0\n", b"a 1\n")
    second = timed(tmp_path, "b", "309.0 4 0\n", b"b 1\n", skew=300.0)
    assert [line for _, line in told(first, second)] == [b"b 1", b"a 1"]


def test_stderr_has_a_column_of_its_own(tmp_path: Path) -> None:
    log = timed(tmp_path, "a", "10.0 4 0\n11.0 4 2\n", b"e\n", stream="err")
    assert told(log) == [(11.0, b"e")]


def test_what_came_after_the_last_entry_goes_with_the_line_before(tmp_path: Path) -> None:
    assert told(timed(tmp_path, "a", "10.0 4 0\n", b"a 1\na 2")) == [(10.0, b"a 1"), (10.0, b"a 2")]


def test_without_an_index_lines_come_last_and_have_no_time(tmp_path: Path) -> None:
    first = timed(tmp_path, "a", None, b"a 1\n")
    second = timed(tmp_path, "b", "11.0 4 0\n", b"b 1\n")
    assert told(first, second) == [(11.0, b"b 1"), (None, b"a 1")]


def test_a_clock_that_was_set_back_does_not_mix_a_logs_own_lines(tmp_path: Path) -> None:
    log = timed(tmp_path, "a", "20.0 4 0\n5.0 8 0\ngarbage\n21.0\n", b"a 1\na 2\n")
    assert told(log) == [(20.0, b"a 1"), (20.0, b"a 2")]


GROWTH = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 4)), max_size=12)


@given(st.lists(GROWTH, min_size=1, max_size=4))
def test_every_line_comes_once_in_its_logs_own_order(tmp_path_factory, growths) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("logs")
    logs, lines = [], {}
    for number, growth in enumerate(growths):
        text, index = b"", ""
        for seconds, count in growth:
            text += b"".join(b"%d %d\n" % (number, len(text) + step) for step in range(count))
            index += f"{seconds:.3f} {len(text)} 0\n"
        logs.append(timed(folder, str(number), index, text))
        lines[number] = text.splitlines()
    found = told(*logs)
    for number, own in lines.items():
        assert [line for _, line in found if line.startswith(b"%d " % number)] == own
    times = [seconds for seconds, _ in found if seconds is not None]
    assert times == sorted(times)


TRACEBACK = b'Traceback (most recent call last):\n  File "x.py", line 1\n    f()\nKeyError: 1\n'
CHAINED = b"\nDuring handling of the above exception, another exception occurred:\n\n" + TRACEBACK


def test_a_traceback_is_whole_although_others_wrote_meanwhile(tmp_path: Path) -> None:
    first = timed(tmp_path, "a", "10.0 40 0\n12.0 99 0\n", TRACEBACK + b"after\n")
    second = timed(tmp_path, "b", "11.0 4 0\n", b"b 1\n")
    assert [line for _, line in told(first, second)] == [*TRACEBACK.splitlines(), b"b 1", b"after"]
    assert [found.joins for found in merged([first])] == [False, True, True, True, False]


def test_chained_tracebacks_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_bytes(b"before\n" + TRACEBACK + CHAINED + b"\nafter\n")
    log = TimedLog(tmp_path / "a.out", tmp_path / "none", "out")
    joins = [found.joins for found in merged([log])]
    assert joins == [False, False, *[True] * 10, True, False]


def test_ranks_before_each_line_of_a_traceback(tmp_path: Path) -> None:
    text = b"".join(b"[rank3]: " + line + b"\n" for line in TRACEBACK.splitlines())
    log = timed(tmp_path, "a", None, text + b"[rank3]: bye\n")
    assert [found.joins for found in merged([log])] == [False, True, True, True, False]


def test_what_only_begins_like_a_traceback_does_not_take_the_rest(tmp_path: Path) -> None:
    text = b"Traceback (most recent call last):\n" + b"  indented\n" * 1000
    log = timed(tmp_path, "a", None, text)
    assert [found.joins for found in merged([log])].count(False) > 500
