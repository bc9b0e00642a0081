"""Open MPI over four nodes, two ranks each: by a launch, and by the printed script.

tests/frameworks has the other families. Debian's MPICH is not run over nodes: its MPI_Finalize hangs in UCX
every few times, under mpirun alone as well.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from whole import mpi_worlds
from whole.site import Site

pytestmark = pytest.mark.timeout(600)

DEBIAN_S_MPICH = Path("/usr/lib/x86_64-linux-gnu/libmpich.so.12")


def needs(program: str) -> None:
    """Skip where an mpirun or mpi4py is not here."""
    pytest.importorskip("mpi4py")
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def test_eight_ranks_by_one_mpirun(site: Site) -> None:
    needs("mpirun.openmpi")
    mpi_worlds.save(site, {"mpirun": "mpirun.openmpi"})
    mpi_worlds.assert_launched(site, "Open MPI")


def test_the_printed_script_makes_the_same_world(site: Site) -> None:
    needs("mpirun.openmpi")
    mpi_worlds.save(site, {"mpirun": "mpirun.openmpi"})
    mpi_worlds.assert_by_hand(site, "Open MPI")


def test_the_profile_s_variables_choose_mpi4py_s_library(site: Site) -> None:
    # mpi4py's wheel is for both families. For MPICH it loads libmpi.so.12, for which Debian has another name.
    needs("mpirun.mpich")
    needs("mpirun.openmpi")
    libraries = site.cluster.shared / "mpich"
    libraries.mkdir()
    (libraries / "libmpi.so.12").symlink_to(DEBIAN_S_MPICH)
    env = {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(libraries)}
    mpi_worlds.save(site, {"mpirun": "mpirun.mpich"}, env=env)
    assert "mpirun.mpich" in site.shell("plan", "sum").stdout
    mpi_worlds.save(site, {"mpirun": "mpirun.openmpi"}, env=env)
    refused = site.follow("plan", "sum")
    assert refused.returncode != 0
    assert "mpirun is Open MPI 4" in refused.stderr
    assert "loads MPICH 4" in refused.stderr
