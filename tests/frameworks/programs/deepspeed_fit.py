"""A small model trained by DeepSpeed with ZeRO; every rank says what it became."""

import os

import deepspeed
import torch

# On the CPU DeepSpeed would compile an extension on every node, for a minute; it does without.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
told = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
deepspeed.init_distributed(dist_backend=os.environ["RANKDECK_COMM_BACKEND"])
assert {name: os.environ[name] for name in told} == told, "DeepSpeed took its numbers from elsewhere"
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(7)
layer = torch.nn.Linear(1, 1)
model, _, _, _ = deepspeed.initialize(
    model=layer,
    optimizer=torch.optim.SGD(layer.parameters(), lr=0.3),
    config={
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
given = torch.linspace(-1, 1, 64).unsqueeze(1)[rank::world]  # each rank has points of its own
losses = []
for _ in range(8):
    loss = torch.nn.functional.mse_loss(model(given), 3 * given)
    model.backward(loss)
    model.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
weight = model.module.weight.item()
os.write(1, f"trained rank={rank} world={world} weight={weight:.6f}\n".encode())
torch.distributed.destroy_process_group()
os._exit(0)  # gloo's threads now and then abort a process whose Python shuts down
