"""TensorFlow's two strategies over the nodes of the test cluster."""

from __future__ import annotations

import pytest

from frameworks.trainings import PROGRAMS, PYTHON, all_alike, needs, trained
from whole.site import Site

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]


def test_two_workers_mirror_the_variables(site: Site) -> None:
    needs("tensorflow")
    site.save("tf", PROGRAMS / "tensorflow_mwms.py", framework="tensorflow", python=PYTHON, nodes=2)
    all_alike(trained(site, "tf"), 2)


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
