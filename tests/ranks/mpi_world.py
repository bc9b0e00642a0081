"""mpi4py: everyone's number summed by everyone, and what the rank was told against what MPI says."""

import os

from mpi4py import MPI

FAMILIES = ("Open MPI", "Intel(R) MPI", "MPICH")

world = MPI.COMM_WORLD
node = world.Split_type(MPI.COMM_TYPE_SHARED)
told = tuple(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
found = (world.rank, world.size, node.rank, node.size)
assert told == found, f"told {told}, MPI says {found}"
total = world.allreduce(world.rank + 1)
family = next(name for name in FAMILIES if name in MPI.Get_library_version())
# In one write: where mpirun is run by hand, all ranks share its output.
os.write(1, f"rank {world.rank} of {world.size} on {os.uname().nodename}: {total} by {family}\n".encode())
