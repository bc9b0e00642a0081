"""A small model trained by Horovod; every rank says what it became."""

import os

import horovod.torch as hvd
import torch

hvd.init()
told = tuple(
    int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
)
found = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank())
assert told == found, f"told {told}, Horovod says {found}"
assert hvd.mpi_enabled()
rank, world = hvd.rank(), hvd.size()
total = hvd.allreduce(torch.tensor([float(rank + 1)]), op=hvd.Sum).item()
assert total == world * (world + 1) / 2, total

torch.manual_seed(rank)  # different at first: the broadcast makes them equal
layer = torch.nn.Linear(1, 1)
hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
plain = torch.optim.SGD(layer.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(plain, named_parameters=layer.named_parameters())
given = torch.linspace(-1, 1, 64).unsqueeze(1)[rank::world]  # each rank has points of its own
losses = []
for _ in range(12):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(layer(given), 3 * given)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
os.write(1, f"trained rank={rank} world={world} weight={layer.weight.item():.6f}\n".encode())
hvd.shutdown()
