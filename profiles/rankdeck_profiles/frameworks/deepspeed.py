"""`deepspeed`: DeepSpeed over MPI, not by its own launcher.

The contract (deepspeed/comm/comm.py): `init_distributed` needs RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
LOCAL_RANK. Where one is missing it looks for Azure ML (`AZUREML_EXPERIMENT_ID`), SageMaker
(`SM_TRAINING_ENV`), else it asks mpi4py and takes the first word of `hostname -I` for the head. All five are
set by the rank shim, so mpi4py need not be there and the head's address is the right one. The script must
not require `--local_rank`: its default is read from LOCAL_RANK.

Its own launcher passes on only some variables, prepends nothing for the others, and leaves processes behind.
"""

from __future__ import annotations

from rankdeck_profiles.frameworks.mpi_family import MpiFramework


class DeepSpeed(MpiFramework):
    """DeepSpeed under our mpirun."""

    name = "deepspeed"
    summary = "DeepSpeed scripts (models too large for one GPU's memory), over MPI"
    advice = (
        "The script calls deepspeed.initialize(); name it alone, without the deepspeed command or a hostfile."
    )
    module = "deepspeed"
