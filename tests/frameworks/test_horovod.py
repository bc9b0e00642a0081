"""Horovod under mpirun."""

from __future__ import annotations

import pytest

from frameworks.trainings import LIMIT, PROGRAMS, PYTHON, all_alike, needs, trained
from whole.site import Site

pytestmark = [pytest.mark.frameworks, pytest.mark.horovod, pytest.mark.timeout(900)]


@pytest.mark.parametrize("backend", ["", "mpi"])
def test_horovod(site: Site, backend: str) -> None:
    needs("horovod")
    options = {"mpirun": "mpirun.openmpi", "allow_root": True, "ssh_args": site.key_between_nodes()}
    more = {"communication_backend": backend} if backend else {}
    site.save(
        "hvd", PROGRAMS / "horovod_fit.py", framework="horovod", python=PYTHON, nodes=2, procs_per_node=2,
        options=options, **more,
    )  # fmt: skip
    all_alike(trained(site, "hvd"), 4)


def test_gloo_is_refused_as_it_would_crash(site: Site) -> None:
    """Once this fails, Horovod has mended it, and rankdeck need not refuse it."""
    needs("horovod")
    options = {"mpirun": "mpirun.openmpi", "allow_root": True, "ssh_args": site.key_between_nodes()}
    site.save(
        "hvd", PROGRAMS / "horovod_fit.py", framework="horovod", python=PYTHON, nodes=2, options=options,
        env={"HOROVOD_CPU_OPERATIONS": "gloo"},
    )  # fmt: skip
    done = site.follow("run", "hvd", limit=LIMIT)
    assert done.returncode != 0
    assert "signal SEGV" in done.stderr
    refused = site.follow("run", "hvd", "--set", "communication_backend=gloo")
    assert "Horovod crashes where MPI" in refused.stderr
