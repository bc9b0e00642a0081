"""A short part of the chaos, always the same one, and runs beside each other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from chaos.field import CLOCK_NODE, Field, field
from chaos.neighbours import Neighbours
from chaos.round import Round
from chaos.schedule import Schedule

pytestmark = [pytest.mark.timeout(900), pytest.mark.cluster]

SEED = 2
ROUNDS = (0, 2)
BESIDE = 10
"""Runs that are stopped beside another one."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, needs_cluster: None) -> Iterator[Field]:
    """A cluster and a user, for all tests of this module."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (cc), for a clock that jumps")
    with field(tmp_path_factory.mktemp("chaos")) as made:
        yield made


def nodes(ground: Field) -> list[str]:
    return [node.name for node in ground.cluster.nodes]


@pytest.mark.parametrize("number", ROUNDS)
def test_whatever_befalls_runs_the_record_is_true_and_nothing_is_left(ground: Field, number: int) -> None:
    this = Round(ground, Schedule.draw(SEED, number, nodes(ground), CLOCK_NODE, long=False), SEED, number)
    this.run()
    assert this.events
    assert not this.found, this.report


def test_a_run_beside_others_does_not_notice_that_they_are_stopped(ground: Field) -> None:
    beside = Neighbours(ground, SEED)
    assert not beside.run(BESIDE)
    assert beside.stopped == BESIDE


def test_the_same_seed_draws_the_same_faults() -> None:
    first, again = (Schedule.draw(7, 3, ["n1", "n2"], "n1", long=True) for _ in range(2))
    assert first == again
    assert first != Schedule.draw(8, 3, ["n1", "n2"], "n1", long=True)
