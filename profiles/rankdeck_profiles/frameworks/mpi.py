"""`mpi`: any MPI program; the whole mpirun command is written for the MPI that the nodes have.

The contract: a rank's number comes from MPI itself (`OMPI_COMM_WORLD_RANK`, or hydra's `PMI_RANK`). Beside
it every rank has `RANK`, `LOCAL_RANK`, `WORLD_SIZE`, `LOCAL_WORLD_SIZE`, `NODE_RANK`, `MASTER_ADDR` and
`MASTER_PORT`, so that `torch.distributed` works in it too. procs_per_node is the slots (one rank a GPU), or
1 for programs that use a whole node.
"""

from __future__ import annotations

from rankdeck_profiles.frameworks.mpi_family import MpiFramework


class Mpi(MpiFramework):
    """One mpirun for all."""

    name = "mpi"
    summary = "MPI programs: give the program alone, the mpirun command is written for the MPI on the nodes"
    advice = (
        "Name the program alone, without mpirun; the head node must be able to log in to the others by ssh."
    )
