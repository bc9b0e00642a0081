"""`horovod`: Horovod over MPI, not by horovodrun.

The contract (horovod/runner/mpi_run.py, common/operations.cc, runner/common/util/env.py): under mpirun
Horovod takes its rank from MPI and needs no variable of its own. `HOROVOD_CONTROLLER=mpi` says so even where
it was built with Gloo as well; `HOROVOD_RANK`, `HOROVOD_SIZE` and `HOROVOD_GLOO_*` of another run must not be
there. `HOROVOD_CPU_OPERATIONS` chooses what reduces tensors on the CPU; that NCCL does it on GPUs is decided
when Horovod is built.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.frameworks.mpi_family import MpiFramework
from rankdeck_profiles.model import CommBackend
from rankdeck_profiles.settings import Setting


class Horovod(MpiFramework):
    """Horovod under our mpirun."""

    name = "horovod"
    summary = "Horovod scripts, over MPI"
    advice = (
        "The script calls hvd.init() and takes its GPU from hvd.local_rank(); name it alone, without "
        "horovodrun."
    )
    module = "horovod"

    def rank_settings(self, job: NodeJob) -> Sequence[Setting]:
        """That MPI is the controller, and the CPU operations asked for."""
        settings = [Setting("HOROVOD_CONTROLLER", "mpi", "the ranks are those of mpirun")]
        asked = job.profile.communication_backend
        if asked in (CommBackend.MPI, CommBackend.GLOO):
            settings.append(Setting("HOROVOD_CPU_OPERATIONS", asked.value, "communication_backend"))
        return settings
