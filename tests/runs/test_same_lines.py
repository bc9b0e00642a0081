"""The same line from many ranks once: what counts as the same, who is named, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_runs import same_lines
from rankdeck_runs.alike import Kind, shape
from rankdeck_runs.same_lines import Said, SameLines
from rankdeck_runs.sanitise import plain


def alike(first: str, second: str, nodes: tuple[str, str] = ("n1", "n2")) -> bool:
    return shape([first], nodes[0]).key == shape([second], nodes[1]).key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("step 1 loss 2.50", "step 20 loss 1e-3"),
        ("loss -0.5", "loss 0.5"),
        ("rank 3 of 8", "rank 4 of 8"),
        ("rank3 is on cuda:3", "rank12 is on cuda:0"),
        ("[rank3]: KeyError: 'x'", "[rank12]: KeyError: 'x'"),
        ("[default3]:epoch done", "[default0]:epoch done"),
        ("2026-11-28 20:43:26,123 INFO ready", "2026-12-01 00:00:00,001 INFO ready"),
        ("2026-11-28T20:43:26.123Z ready", "2026-11-28T20:43:27Z ready"),
        ("I1128 12:03:11.200 77 main.py:3] up", "I1201 00:00:00.100 1234 main.py:3] up"),
        ("at 0x7f00dead", "at 0x55aa"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174001"),
        ("commit 1a2b3c4d5e", "commit ffff0000aa"),
        ("connected to 10.0.0.3<4321>", "connected to 10.0.12.4<99>"),
        (
            "n1:1234:77 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
            "n2:99:8 [1] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>",
        ),
        (
            " 45%|████▌     | 45/100 [00:12<00:15, 3.52it/s]",
            "  3%|▎         | 3/100 [00:01<01:15,  1.20it/s]",
        ),
        ("step    1", "step 1000"),
        ("took 12ms", "took 7ms"),
        ("the end  ", "the end"),
    ],
)
def test_alike(first: str, second: str) -> None:
    assert alike(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("loss 2.50", "loss nan"),
        ("loss inf", "loss nan"),
        ("using float16", "using float32"),
        ("using fp16", "using bf16"),
        ("NET/IB : Using mlx5_0", "NET/IB : Using mlx5_1"),
        ("exit code 1", "exit code 137"),
        ("exitcode: -9", "exitcode: -15"),
        ("exitcode=1", "exitcode=2"),
        ("killed by signal 9", "killed by signal 11"),
        ("[Errno 110] Connection timed out", "[Errno 111] Connection timed out"),
        ("CUDA error 700", "CUDA error 719"),
        ("NCCL version 2.27.5", "NCCL version 2.26.2"),
        ("Xid 79, lost", "Xid 48, lost"),
        ("KeyError: 'x'", "KeyError: 'y'"),
        ("shape [1, 2]", "shape [1, 2, 3]"),
        ("host n2 is gone", "host n3 is gone"),
        ("x" * 5000 + "a", "x" * 5000 + "b"),
    ],
)
def test_not_alike(first: str, second: str) -> None:
    assert not alike(first, second, ("n1", "n1"))


def test_the_own_node_under_whichever_name() -> None:
    assert alike("n1:77 up", "n2.cluster:4 up", ("n1.cluster", "n2.cluster"))
    assert alike("127.0.0.1 up", "127.0.0.2 up", ("127.0.0.1", "127.0.0.2"))
    said = folded([(r, ["127 files"]) for r in range(2)], 2)
    assert said[0].lines == ["127 files"]
    assert [slot.kind for slot in shape(["127 files"], "127.0.0.1").slots] == [Kind.NUMBER]


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in <module>',
    "    loss.backward()",
    "RuntimeError: CUDA out of memory at 0x7f{0:04x} (pid {1})",
)


def traceback(rank: int, last: str = TRACEBACK[-1], line: int = 12) -> list[str]:
    lines = [*TRACEBACK[:-1], last.format(rank, 4000 + rank)]
    return [f"[rank{rank}]: {text}".replace("line 12", f"line {line}") for text in lines]


def folded(lines: Sequence[tuple[int, Sequence[str]]], world: int) -> list[Said]:
    same = SameLines(tuple(range(world)))
    for rank, block in lines:
        assert not same.add(rank, "err", float(rank), block)
    return list(same)


def test_the_same_traceback_of_many_ranks_and_another_of_one() -> None:
    blocks = [
        (r, traceback(r) if r != 137 else traceback(r, "RuntimeError: NCCL error: remote"))
        for r in range(512)
    ]
    many, one = folded(blocks, 512)
    assert many.ranks == tuple(r for r in range(512) if r != 137)
    assert many.lines[-1] == "RuntimeError: CUDA out of memory at * (pid 4000..4511)"
    assert not many.by_all
    assert one.ranks == (137,)
    assert one.lines == [*TRACEBACK[:-1], "RuntimeError: NCCL error: remote"]


def test_a_traceback_through_another_line_is_another() -> None:
    assert len(folded([(0, traceback(0)), (1, traceback(1, line=40))], 2)) == 2


def test_the_number_of_few_is_told_beside_that_of_most() -> None:
    said = folded([(r, [f"rank {r}: {999 if r == 17 else 1000} samples"]) for r in range(64)], 64)
    assert [entry.lines for entry in said] == [["rank 0..63: 999..1000 samples"]]
    odd = said[0].odd
    assert [(entry.ranks, entry.text) for entry in odd] == [((17,), "999, most 1000")]
    assert not said[0].by_all


def test_numbers_that_all_differ_have_no_odd_one() -> None:
    (said,) = folded([(r, [f"rank {r} ready"]) for r in range(8)], 8)
    assert said.by_all


def test_a_rank_that_said_it_less_often_is_told() -> None:
    steps = [(r, [f"step {n}"]) for r in range(8) for n in range(12 if r == 5 else 60)]
    (said,) = folded(steps, 8)
    assert said.lines == ["step 0..59"]
    assert said.each == (12, 60)
    assert [(odd.ranks, odd.text) for odd in said.odd] == [((5,), "12 times, most 60")]


def test_one_step_less_is_not_odd() -> None:
    """Ranks of a run that goes on are never all at the same line."""
    (said,) = folded([(r, [f"step {n}"]) for r in range(8) for n in range(60 - (r == 5))], 8)
    assert said.by_all


def test_stdout_and_stderr_are_told_apart_and_empty_lines_left_out() -> None:
    same = SameLines((0,))
    for stream, line in (("out", "x"), ("err", "x"), ("out", ""), ("err", "  ")):
        same.add(0, stream, None, [line])
    assert [(said.stream, said.lines) for said in same] == [("out", ["x"]), ("err", ["x"])]


def test_with_too_many_kinds_the_oldest_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_lines, "MOST_KINDS", 3)
    same = SameLines((0,))
    words = ["one", "two", "three", "four", "one"]
    gone = [said for word in words for said in same.add(0, "out", None, [word])]
    assert [said.lines[0] for said in [*gone, *same]] == words


def test_with_too_much_text_the_oldest_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_lines, "MOST_TEXT", 2_000)
    same = SameLines((0,))
    gone = [said for letter in "abcde" for said in same.add(0, "out", None, [letter * 800])]
    assert [said.lines[0][0] for said in gone] == ["a", "b", "c"]


WORDS = st.lists(
    st.sampled_from(["step", "nan", "7", "-3.5e2", "0x1f", "n1", "n1:5", "x5", "%|", "|"]) | st.text()
)


@given(st.lists(st.tuples(st.integers(0, 3), WORDS), max_size=30))
def test_nothing_is_lost_and_nothing_raises(spoken: list[tuple[int, list[str]]]) -> None:
    same = SameLines((0, 1, 2, 3))
    count = 0
    for rank, words in spoken:
        line = plain(" ".join(words).encode("utf-8", "replace"))
        count += bool(line.strip())
        same.add(rank, "out", None, [line], "n1")
    assert sum(said.times for said in same) == count
    for said in same:
        assert said.ranks == tuple(r for r in said.world if r in said.ranks)
        assert said.lines
        assert all(set(odd.ranks) < set(said.ranks) for odd in said.odd)


@given(WORDS)
def test_a_line_said_once_stands_as_it_is(words: list[str]) -> None:
    line = plain(" ".join(words).encode("utf-8", "replace"))
    same = SameLines((0,))
    same.add(0, "out", None, [line], "n1")
    assert [said.lines for said in same] == ([[line[:4096].rstrip()]] if line.strip() else [])
