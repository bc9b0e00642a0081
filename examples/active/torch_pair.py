"""`rankdeck check --active torch`: an all-reduce between the ranks of a run; rank 0 tells how fast it was."""

import json
import os
import signal
import time

signal.alarm(75)  # rankdeck ends a silent pair after 60 s; this is for when rankdeck itself is gone
try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    print("rankdeck-active " + json.dumps({"missing": str(error)}), flush=True)
    raise SystemExit(1) from error

ROUNDS = 10
gpu = torch.cuda.is_available()
library = "nccl" if gpu else "gloo"
if gpu:
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group(library)
size = (256 if gpu else 16) << 20
data = torch.ones(size // 4, device="cuda" if gpu else "cpu")


def one() -> float:
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(data)
    if gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began


one()
one()
best = min(one() for _ in range(ROUNDS))
world = dist.get_world_size()
if dist.get_rank() == 0:
    moved = size * 2 * (world - 1) / world
    found = {"bytes": size, "seconds": best, "gbytes_per_s": moved / best / 1e9, "library": library}
    print("rankdeck-active " + json.dumps(found), flush=True)
dist.destroy_process_group()
