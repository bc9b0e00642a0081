"""mpi4py: everyone's number summed by everyone, and what the rank shim says against what MPI says."""

import os

from mpi4py import MPI

world = MPI.COMM_WORLD
assert int(os.environ["RANK"]) == world.rank, (os.environ["RANK"], world.rank)
assert int(os.environ["WORLD_SIZE"]) == world.size
total = world.allreduce(float(world.rank + 1))
os.write(1, f"trained rank={world.rank} world={world.size} weight={total:.6f}\n".encode())
