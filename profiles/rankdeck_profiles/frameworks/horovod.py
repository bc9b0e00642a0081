"""`horovod`: Horovod over MPI, not by horovodrun.

The contract (horovod/runner/mpi_run.py, common/operations.cc, runner/common/util/env.py): under mpirun
Horovod takes its rank from MPI and needs no variable of its own. `HOROVOD_CONTROLLER=mpi` says so even where
it was built with Gloo as well; `HOROVOD_RANK`, `HOROVOD_SIZE` and `HOROVOD_GLOO_*` of another run must not be
there. `HOROVOD_CPU_OPERATIONS` chooses what reduces tensors on the CPU; that NCCL does it on GPUs is decided
when Horovod is built. `gloo` cannot be chosen under MPI: since Horovod 0.23 a process set has a Gloo context
only where Gloo is the controller (common/process_set.cc), and GlooAllreduce crashes without one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles.errors import FieldError
from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.frameworks.mpi_family import MpiFramework
from rankdeck_profiles.model import CommBackend, Profile
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

    def check(self, profile: Profile) -> None:
        """Refuse what would crash every rank."""
        super().check(profile)
        if profile.communication_backend is CommBackend.GLOO:
            raise FieldError(
                ("communication_backend",),
                'communication_backend = "gloo": Horovod crashes where MPI starts the ranks and Gloo is to '
                "reduce their tensors",
                'allowed with framework = "horovod": "mpi", "nccl"; or leave it out',
            )

    def rank_settings(self, job: NodeJob) -> Sequence[Setting]:
        """That MPI is the controller, and the CPU operations asked for."""
        settings = [Setting("HOROVOD_CONTROLLER", "mpi", "the ranks are those of mpirun")]
        if job.profile.communication_backend is CommBackend.MPI:
            settings.append(Setting("HOROVOD_CPU_OPERATIONS", "mpi", "communication_backend"))
        return settings
