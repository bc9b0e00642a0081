"""A run's metrics: from log bytes to metrics.jsonl and series, across restarts, doubles and hostile logs."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path

import pytest

from rankdeck_profiles.edit import new_profile
from rankdeck_runs.metrics import book as books
from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.metrics.reader import FRAME_BYTES
from rankdeck_runs.metrics.series import Series
from rankdeck_runs.metrics.stats import leading, summarise, written

LIMIT = 120.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


def write(run: Path, data: bytes, rank: int = 0, stream: str = "out", attempt: str = "") -> None:
    with open(run / "logs" / f"rank-{rank:05d}{attempt}.{stream}", "ab") as log:
        log.write(data)


def updated(run: Path, book: MetricsBook | None = None) -> MetricsBook:
    book = book or MetricsBook(run)
    assert book.update(seconds=LIMIT)
    return book


def curve(book: MetricsBook, name: str = "loss", rank: int = 0) -> list[tuple[float, float]]:
    series = book.of(name)[rank]
    return list(zip(series.xs, series.ys, strict=True))


def entries(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]


def test_lines_become_points_and_the_file_says_where_they_stood(run: Path) -> None:
    write(run, b"hello\nstep 1 loss 0.5\r\nstep 2 loss nan\nstep 3 lo")
    book = updated(run)
    assert curve(book) == [(1, 0.5)]
    assert math.isnan(book.of("loss")[0].last)
    first, second = entries(run)
    assert (first["at"], first["end"], first["step"], first["values"]) == (6, 23, 1, {"loss": 0.5})
    assert second["values"] == {"loss": "nan"}
    write(run, b"ss 0.25\n")
    assert curve(updated(run, book)) == [(1, 0.5), (3, 0.25)]


def test_a_restart_goes_on_where_the_file_ends(run: Path) -> None:
    write(run, b"".join(b"step %d loss 0.5\n" % step for step in range(50)))
    updated(run)
    with open(run / "metrics.jsonl", "ab") as torn:
        torn.write(b'{"rank":0,"log":"rank-0')
    write(run, b"step 50 loss 0.25\n")
    again = updated(run)
    assert again.of("loss")[0].count == 51
    lines = (run / "metrics.jsonl").read_bytes().splitlines()
    assert len(lines) == 52  # one of them is the torn one
    assert updated(run).of("loss")[0].count == 51


def test_two_that_follow_one_run_count_nothing_twice(run: Path) -> None:
    write(run, b"step 1 loss 0.5\n")
    one, two = updated(run), MetricsBook(run)
    write(run, b"step 2 loss 0.25\n")
    updated(run, two)
    write(run, b"step 3 loss 0.125\n")
    updated(run, one)
    updated(run, two)
    expected = [(1, 0.5), (2, 0.25), (3, 0.125)]
    assert curve(one) == curve(two) == curve(updated(run)) == expected


def test_the_deleted_file_is_made_anew(run: Path) -> None:
    write(run, b"step 1 loss 0.5\n")
    updated(run)
    (run / "metrics.jsonl").unlink()
    assert curve(updated(run)) == [(1, 0.5)]
    assert len(entries(run)) == 1


def test_garbage_in_the_file_is_left_out(run: Path) -> None:
    write(run, b"step 1 loss 0.5\n")
    (run / "metrics.jsonl").write_text(
        '[]\nnull\n{"log":"../x","at":1}\n{"log":"rank-00000.out","at":"x","end":1,"values":{}}\n'
        '{"log":"rank-00000.out","read":"x"}\n{"log":"rank-00000.out","at":0,"end":2,"values":{"loss":[]}}\n'
        + "[" * 100_000
        + "\n"
    )
    assert curve(updated(run)) == [(1, 0.5)]


def test_a_record_that_cannot_be_written_is_shown_all_the_same(run: Path) -> None:
    write(run, b"step 1 loss 0.5\n")
    (run / "metrics.jsonl").mkdir()
    assert curve(updated(run)) == [(1, 0.5)]


def test_a_log_without_metrics_is_not_read_again(run: Path) -> None:
    write(run, b"nothing of note here\n" * 200_000)
    updated(run)
    (last,) = entries(run)[-1:]
    assert last["log"] == "rank-00000.out"
    assert isinstance(last["read"], int)
    assert last["read"] > 3 << 20


def test_a_bar_gives_some_frames_and_its_last(run: Path) -> None:
    frames = b"".join(
        b"\r %d%%|##   | %d/1000 [00:10<00:12, 4.00it/s, loss=%d.5]" % (step // 10, step, step)
        for step in range(1001)
    )
    write(run, frames + b"\nstep 2000 loss 0.5\n")
    book = updated(run)
    steps = [x for x, _ in curve(book)]
    assert steps[-2:] == [1000, 2000]
    assert len(frames) // FRAME_BYTES <= len(steps) <= len(frames) // FRAME_BYTES + 3
    assert book.of("it/s")[0].last == 4


def test_a_bar_that_goes_on_is_read_up_to_the_frame_that_is_being_written(run: Path) -> None:
    write(run, b"\r 1%|# | 1/100 [00:01<00:12, 4.00it/s]\r 2%|# | 2/100 [00:01<00:12, 4.0")
    book = updated(run)
    assert book.of("it/s")[0].last_x == 1


def test_a_line_without_an_end_is_stepped_over(run: Path) -> None:
    write(run, b"loss 1.0 " * (3 * books.CHUNK // 9) + b"\nstep 1 loss 0.5\n")
    assert curve(updated(run)) == [(1, 0.5)]


def test_hostile_bytes_do_no_harm(run: Path) -> None:
    write(
        run,
        b"\x00" * 300_000
        + b"\nstep 1 \xff\xfe loss \x1b[31m0.5\x1b[0m\x1b]52;c;x\x07\n"
        + os.urandom(99_999),
    )
    write(run, b"\nstep 2 loss 0.25\n")
    points = curve(updated(run))
    assert (points[0], points[-1]) == ((1, 0.5), (2, 0.25))


def test_more_names_than_a_program_measures_are_left_out(run: Path) -> None:
    write(run, b"".join(b"a%d_loss 1\n" % name for name in range(1000)))
    assert len(updated(run).names()) == books.MOST_METRICS


def test_the_profile_s_patterns_come_before_the_usual_forms(run: Path) -> None:
    new_profile(
        run / "run.toml",
        {
            "framework": "pytorch",
            "script": "t.py",
            "metrics.loss": r"cost (\S+)",
            "metrics.both": r"at (?P<step>\d+): a (?P<a>\S+) b (?P<b>\S+)",
        },
    )
    write(run, b"step 1 loss 0.5 cost 7 lr 0.1\nat 4: a 1.5 b x\n")
    book = updated(run)
    assert curve(book) == [(1, 7)]
    assert curve(book, "lr") == [(1, 0.1)]
    assert curve(book, "a") == [(4, 1.5)]
    assert "b" not in book.names()
    assert "step" not in book.names()


def test_a_slow_pattern_is_dropped_and_the_rest_goes_on(run: Path) -> None:
    slow = r".*.*.*.*(\d)$"
    new_profile(
        run / "run.toml",
        {"framework": "pytorch", "script": "t.py", "metrics.slow": slow, "metrics.cost": r"cost (\S+)"},
    )
    write(run, (b"x" * 150 + b"\n") + b"cost 2\n" * 100)
    began = time.process_time()
    book = updated(run)
    assert time.process_time() - began < 60
    assert book.slow == ("slow",)
    assert book.of("cost")[0].count == 100


def test_attempts_follow_each_other_and_take_back_what_they_repeat(run: Path) -> None:
    write(run, b"".join(b"step %d loss 2\n" % step for step in range(1, 11)))
    write(run, b"".join(b"step %d loss 1\n" % step for step in range(6, 13)), attempt=".attempt-2")
    points = curve(updated(run))
    assert [x for x, _ in points] == list(range(1, 13))
    assert [y for _, y in points] == [2] * 5 + [1] * 7


def test_steps_that_begin_again_are_another_epoch(run: Path) -> None:
    write(
        run, b"".join(b"epoch %d step %d loss 1\n" % (epoch, step) for epoch in (0, 1) for step in range(5))
    )
    assert [x for x, _ in curve(updated(run))] == list(range(10))


def test_what_both_streams_tell_is_taken_of_one(run: Path) -> None:
    lines = b"".join(b"step %d loss 1\n" % step for step in range(5))
    write(run, lines)
    write(run, lines, stream="err")
    assert updated(run).of("loss")[0].count == 5


def test_time_s_up_leaves_the_rest_for_later(run: Path) -> None:
    write(run, b"step 1 loss 0.5\n" * 20_000)
    book = MetricsBook(run)
    assert not book.update(seconds=-1)
    assert updated(run, book).of("loss")[0].count == 20_000


def test_a_curve_keeps_its_shape_in_bounded_memory() -> None:
    series = Series(limit=64)
    for step in range(100_000):
        series.add(float(step), step)
    assert len(series.xs) <= 64
    assert series.ys == sorted(series.ys)
    assert series.ys[0] < 5_000
    assert series.ys[-1] > 90_000
    assert (series.low, series.high, series.last, series.count) == (0, 99_999, 99_999, 100_000)


def test_a_summary_names_mean_spread_best_and_who_diverged() -> None:
    series = {rank: Series() for rank in range(3)}
    for rank, values in enumerate([(3.0, 1.0), (3.0, 2.0), (0.5, math.nan)]):
        for step, value in enumerate(values):
            series[rank].add(value, step)
    summary = summarise("loss", series)
    assert summary is not None
    assert math.isnan(summary.mean)
    assert (summary.low, summary.low_rank, summary.high, summary.high_rank) == (1, 0, 2, 1)
    assert (summary.best, summary.best_x, summary.best_rank) == (0.5, 0, 2)
    assert (summary.odd, summary.odd_x) == ((2,), 1)
    assert json.loads(json.dumps(summary.to_json(), allow_nan=False))["last"]["mean"] == "nan"


def test_which_metric_speaks_for_the_run() -> None:
    assert leading(["lr", "eval_loss", "train/loss", "first_loss"]) == "train/loss"
    assert leading(["lr", "eval_loss"]) == "eval_loss"
    assert leading(["lossy", "lr"]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.43211, "0.4321"),
        (1.5e-5, "1.5e-05"),
        (41210.4, "41,210"),
        (0.0, "0"),
        (math.nan, "nan"),
        (12.0, "12"),
    ],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert written(value) == text


def test_logs_without_metrics_wait_where_time_is_short_and_others_do_not(run: Path) -> None:
    write(run, b"nothing of note here\n" * 100_000, rank=0)
    write(run, b"step 1 loss 0.5\n" * 10_000, rank=1)
    book = MetricsBook(run)
    assert not book.update(seconds=LIMIT, silent_seconds=0.0)
    assert book.counts("loss") == [10_000]
    assert updated(run, book).counts("loss") == [10_000]


def test_two_threads_at_once_count_nothing_twice(run: Path) -> None:
    for rank in range(4):
        write(run, b"".join(b"step %d loss 0.5\n" % step for step in range(20_000)), rank=rank)
    book = MetricsBook(run)
    threads = [threading.Thread(target=book.update, kwargs={"seconds": LIMIT}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.counts("loss") == [20_000] * 4
    assert len(entries(run)) == 80_000
