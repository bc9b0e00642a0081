"""`rankdeck check --active mpi`: messages between two MPI ranks; rank 0 tells how fast they were."""

import json
import signal
import time

signal.alarm(75)  # rankdeck ends a silent pair after 60 s; this is for when rankdeck itself is gone
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library that it could load
    print("rankdeck-active " + json.dumps({"missing": str(error)}), flush=True)
    raise SystemExit(1) from error

ROUNDS = 10
SIZE = 16 << 20
world = MPI.COMM_WORLD
rank, other = world.Get_rank(), 1 - world.Get_rank()
there, back = bytearray(SIZE), bytearray(SIZE)


def one() -> float:
    world.Barrier()
    began = time.perf_counter()
    if rank == 0:
        world.Send(there, other)
        world.Recv(back, other)
    else:
        world.Recv(back, other)
        world.Send(there, other)
    return (time.perf_counter() - began) / 2


one()
best = min(one() for _ in range(ROUNDS))
if rank == 0:
    found = {"bytes": SIZE, "seconds": best, "gbytes_per_s": SIZE / best / 1e9, "library": "mpi"}
    print("rankdeck-active " + json.dumps(found), flush=True)
