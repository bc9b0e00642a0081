"""TensorFlow's two strategies over the nodes of the test cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from frameworks.trainings import PROGRAMS, PYTHON, all_alike, needs, trained
from whole.site import Site

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


def checkpoints(site: Site) -> Path:
    """A folder that all nodes see, empty."""
    folder = site.cluster.shared / f"checkpoints-{site.shell.folder.name}"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("chief", [False, True])
def test_two_workers_mirror_the_variables(site: Site, chief: bool) -> None:
    needs("tensorflow")
    site.save(
        "tf", PROGRAMS / "tensorflow_mwms.py", framework="tensorflow", python=PYTHON, nodes=2,
        options={"chief": chief},
    )  # fmt: skip
    all_alike(trained(site, "tf"), 2)


def test_an_evaluator_beside_mirrored_workers(site: Site) -> None:
    needs("tensorflow")
    site.save(
        "tf", PROGRAMS / "tensorflow_mwms.py", str(checkpoints(site)), framework="tensorflow", python=PYTHON,
        nodes=2, options={"chief": True, "workers": 1, "evaluator": True},
    )  # fmt: skip
    found = trained(site, "tf")
    all_alike(found, 2)
    assert site.raw(1).decode().startswith(f"evaluated weight={found[0][2]} ")
    assert [rank["node"] for rank in site.show()["ranks"]] == ["n1", "n1", "n2"]


def test_servers_are_ended_when_the_chief_is_done(site: Site) -> None:
    needs("tensorflow")
    site.save(
        "tf", PROGRAMS / "tensorflow_ps.py", framework="tensorflow", python=PYTHON, nodes=2,
        options={"strategy": "ps"},
    )  # fmt: skip
    [(rank, workers, weight)] = trained(site, "tf")
    assert (rank, workers) == (0, 2)
    assert 2.5 < float(weight) < 3.5
    ranks = site.show()["ranks"]
    assert len(ranks) == 4
    assert [rank["node"] for rank in ranks] == ["n1", "n1", "n2", "n2"]
    said = [site.raw(rank).decode().strip() for rank in range(4)]
    assert said[0].startswith("trained rank=0")
    assert sorted(said[1:]) == ["serving as ps 0", "serving as worker 0", "serving as worker 1"]


def test_servers_serve_while_the_evaluator_ends_by_itself(site: Site) -> None:
    """Two parameter servers, each on a node of its own, end with the chief; the evaluator is waited for."""
    needs("tensorflow")
    site.save(
        "tf", PROGRAMS / "tensorflow_ps.py", str(checkpoints(site)), framework="tensorflow", python=PYTHON,
        nodes=3, options={"strategy": "ps", "workers": 2, "ps": 2, "evaluator": True},
    )  # fmt: skip
    [(rank, workers, weight)] = trained(site, "tf")
    assert (rank, workers) == (0, 2)
    said = [site.raw(rank).decode().strip() for rank in range(6)]
    assert said[5].startswith(f"evaluated weight={weight} ")
    assert sorted(said[1:5]) == [
        f"serving as {kind} {index}" for kind in ("ps", "worker") for index in (0, 1)
    ]
