"""Each lie that a record may tell is found."""

from __future__ import annotations

import copy
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.checks import violations
from chaos.rank import piece
from chaos.trial import Shape, Trial

SHAPE = Shape(
    tag="chaos-0",
    nodes=("n1", "n2"),
    per_node=1,
    seconds=3,
    fail_rank=-1,
    term="exit",
    worker="none",
    grace=1,
    client="detach",
    keep=False,
)
RANK = {"exit_code": 0, "signal": None, "state": "succeeded", "why": ""}
SHOWN: dict[str, Any] = {
    "state": "succeeded",
    "complete": True,
    "cause": None,
    "notes": [],
    "nodes": [],
    "ranks": [{**RANK, "rank": rank, "node": SHAPE.nodes[rank]} for rank in (0, 1)],
}


class StandIn(Trial):
    """A run that was not: its record says what a test wants."""

    @property
    def record(self) -> Path:
        return self.folder / "record"


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """Two ranks that wrote a piece each and ended with 0, and a record that says so."""

    def shell(*words: str, status: int | None) -> subprocess.CompletedProcess[str]:
        rank, stream = int(words[3]), words[5]
        data = (tmp_path / f"record/logs/rank-{rank:05d}.{stream}").read_bytes()
        return subprocess.CompletedProcess(words, 0, data.decode("utf-8", "surrogateescape"), "")

    shell.folder = tmp_path  # type: ignore[attr-defined]
    site: Any = SimpleNamespace(shell=shell, cluster=SimpleNamespace(nodes=()))
    made = StandIn(SHAPE, site, tmp_path)
    (tmp_path / "record/logs").mkdir(parents=True)
    for rank in (0, 1):
        (tmp_path / f"{rank}.began").touch()
        (tmp_path / f"{rank}.end").write_text("0 own")
        (tmp_path / f"{rank}.doing").write_text("out          1")
        for stream in ("out", "err"):
            data = piece(rank, stream, 0)
            (tmp_path / f"{rank}.{stream}").write_bytes(data)
            (tmp_path / f"record/logs/rank-{rank:05d}.{stream}").write_bytes(data)
    made.shown = copy.deepcopy(SHOWN)
    return made


def found(trial: Trial) -> str:
    return "\n".join(violations(trial, random.Random(1)))


def test_a_true_record_has_nothing_wrong(trial: Trial) -> None:
    assert not found(trial)


def the_state(state: str) -> Callable[[Trial], None]:
    return lambda trial: trial.shown.update(state=state)


def ended_otherwise(trial: Trial) -> None:
    (trial.folder / "1.end").write_text("7 own")


def blames_the_wrong_one(trial: Trial) -> None:
    trial.shown.update(state="failed", cause={"rank": 0, "node": "n1", "message": "?"})


def blames_a_node(trial: Trial) -> None:
    trial.shown.update(state="failed", cause={"rank": None, "node": "n2", "message": "?"})


def lacks_a_byte(trial: Trial) -> None:
    log = trial.folder / "record/logs/rank-00001.out"
    log.write_bytes(log.read_bytes()[:-1])


def has_a_byte_more(trial: Trial) -> None:
    with (trial.folder / "record/logs/rank-00000.err").open("ab") as log:
        log.write(b"?")


def lost_some_to_a_full_disk(trial: Trial) -> None:
    (trial.folder / "1.refused").write_text("out 50 No space left on device\n")


def broke_down(trial: Trial) -> None:
    (trial.folder / "chaos-0.stop").write_text("Traceback (most recent call last):\n  ...\nKeyError: 3\n")


def one_is_not_to_be_had(trial: Trial) -> None:
    trial.shown["ranks"][1].update(state="unknown", exit_code=None)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (ended_otherwise, "succeeded, but ranks ended"),
        (the_state("stopped"), "nobody asked for it"),
        (the_state("failed"), "without a cause"),
        (the_state("unknown"), "nothing befell it"),
        (the_state("running"), "does not come to an end"),
        (blames_the_wrong_one, "the cause is rank 0"),
        (blames_a_node, "the cause is n2"),
        (lacks_a_byte, "rank 1 wrote"),
        (has_a_byte_more, "1 more"),
        (lost_some_to_a_full_disk, "no note says so"),
        (broke_down, "rankdeck stop broke down"),
        (one_is_not_to_be_had, "is shown as unknown"),
    ],
)
def test_a_lie_is_found(trial: Trial, lie: Callable[[Trial], None], said: str) -> None:
    lie(trial)
    assert said in found(trial)


def test_what_a_killed_rank_was_writing_may_be_there(trial: Trial) -> None:
    (trial.folder / "1.end").unlink()
    trial.hit(1.0, "rank", "n2", 1)
    trial.shown["ranks"][1].update(state="failed", exit_code=None, signal="KILL")
    trial.shown.update(state="failed", cause={"rank": 1, "node": "n2", "message": "?"})
    with (trial.folder / "record/logs/rank-00001.out").open("ab") as log:
        log.write(piece(1, "out", 1))
    assert not found(trial)
