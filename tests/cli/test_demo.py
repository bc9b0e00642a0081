"""`rankdeck demo`: that it trains for real, and that its check would notice if it had not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.user import Shell
from rankdeck_runs.record import Record
from rankdeck_runs.states import RankState, RankStatus, RunSnapshot, RunState
from rankdeck_tui.cli import demonstration

OK = "rankdeck-demo ok world=4 first_loss=0.493602 last_loss=0.048341 checksum=7c6c247ed96d0e08\n"


@pytest.mark.torch
def test_headless_demo_trains_on_two_nodes_with_two_ranks_each(rankdeck: Shell) -> None:
    done = rankdeck("demo", "--headless", "--python", sys.executable)
    assert "2 nodes x 2 ranks, world size 4 seen by every rank" in done.stdout
    assert "every byte the ranks wrote is on record" in done.stdout
    shown = rankdeck.json("show", "last")
    assert (shown["state"], shown["framework"], shown["backend"]) == ("succeeded", "torchrun", "local")
    assert [rank["node"] for rank in shown["ranks"]] == ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]
    plan = json.loads((rankdeck.folder / "data/runs" / shown["id"] / "plan.json").read_text())
    assert plan["head"]["address"] == "127.0.0.1"


def test_a_python_without_torch_is_told(rankdeck: Shell) -> None:
    fake = rankdeck.write("python-without-torch", "#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    done = rankdeck("demo", "--headless", "--python", str(fake), status=2)
    assert f"no torch is installed for {fake}" in done.stderr
    assert "pip install torch" in done.stderr
    assert rankdeck.json("runs") == []
    done = rankdeck("demo", "--headless", "--python", "/no/such/python", status=2)
    assert "there is no such program" in done.stderr


def test_a_training_that_fails_fails_the_demo(rankdeck: Shell) -> None:
    fake = rankdeck.write(
        "python", f'#!/bin/sh\ncase "$*" in *ddp.py*) exit 3;; esac\nexec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    done = rankdeck("demo", "--headless", "--python", str(fake), status=1)
    assert "did not train as it must" in done.stderr
    assert "0 of 4 ranks are on record as succeeded" in done.stderr
    assert done.stdout == ""


@pytest.fixture
def good(tmp_path: Path) -> tuple[RunSnapshot, Record, Path]:
    """A demo run that went well, as far as files and states go."""
    record, copies = Record(tmp_path / "run"), tmp_path / "copies"
    record.logs_path.mkdir(parents=True)
    copies.mkdir()
    for rank in range(4):
        text = f"rank {rank} of 4 on cpu\nepoch 0 step 0 loss 0.5\n{OK}"
        record.log(rank, "out").path.write_text(text)
        (copies / f"rank-{rank:05d}.copy").write_text(text)
    ranks = tuple(
        RankStatus(rank, demonstration.NODES[rank // 2], rank % 2, RankState.SUCCEEDED, exit_code=0)
        for rank in range(4)
    )
    snapshot = RunSnapshot("run", RunState.SUCCEEDED, "demo", "torchrun", "demo", "local", 4, ranks=ranks)
    return snapshot, record, copies


def test_a_good_run_has_no_problems(good: tuple[RunSnapshot, Record, Path]) -> None:
    assert demonstration.problems(*good) == []


def _rewrite(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_rewrite("world=4", "world=3"), "rank 2 saw a world of 3, not 4"),
        (_rewrite("last_loss=0.048341", "last_loss=0.493602"), "rank 2's loss did not go down"),
        (_rewrite("7c6c247ed96d0e08", "7c6c247ed96d0e09"), "the ranks hold different weights"),
        (_rewrite(OK, ""), "rank 2's log does not end with its word"),
        (lambda text: text + "Traceback\n", "rank 2's log does not end with its word"),
        (lambda text: "", "rank 2's log does not end with its word"),
    ],
)
def test_a_log_that_tells_something_else_is_noticed(
    good: tuple[RunSnapshot, Record, Path], change: Callable[[str], str], problem: str
) -> None:
    snapshot, record, copies = good
    for path in (record.log(2, "out").path, copies / "rank-00002.copy"):
        path.write_text(change(path.read_text()))
    (found,) = demonstration.problems(snapshot, record, copies)
    assert problem in found


def test_a_lost_byte_is_noticed(good: tuple[RunSnapshot, Record, Path]) -> None:
    snapshot, record, copies = good
    path = record.log(1, "out").path
    path.write_bytes(path.read_bytes()[1:])
    (found,) = demonstration.problems(snapshot, record, copies)
    assert "rank 1's log on record is not what the rank wrote" in found


def test_a_state_that_tells_something_else_is_noticed(good: tuple[RunSnapshot, Record, Path]) -> None:
    snapshot, record, copies = good
    failed = replace(snapshot, state=RunState.FAILED)
    assert demonstration.problems(failed, record, copies) == ["the run's state is failed, not succeeded"]
    unknown = replace(snapshot.ranks[3], exit_code=None, state=RankState.UNKNOWN)
    found = demonstration.problems(replace(snapshot, ranks=(*snapshot.ranks[:3], unknown)), record, copies)
    assert found == ["3 of 4 ranks are on record as succeeded with exit status 0"]
    one_node = tuple(replace(rank, node="127.0.0.1") for rank in snapshot.ranks)
    assert demonstration.problems(replace(snapshot, ranks=one_node), record, copies) == [
        "the ranks ran on 1 nodes, not 2"
    ]
