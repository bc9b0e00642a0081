"""A small model trained by Accelerate; every rank says its weight. An argument: the precision to be found."""

import os
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
if len(sys.argv) > 1:
    assert accelerator.mixed_precision == sys.argv[1], accelerator.mixed_precision
torch.manual_seed(7)
layer = torch.nn.Linear(1, 1)
given = torch.linspace(-1, 1, 64).unsqueeze(1)
points = DataLoader(TensorDataset(given, 3 * given), batch_size=8)
model, optimizer, batches = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.1), points)
for _ in range(3):
    for x, y in batches:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
weight = accelerator.unwrap_model(model).weight.item()
rank, world = accelerator.process_index, accelerator.num_processes
os.write(1, f"trained rank={rank} world={world} weight={weight:.6f}\n".encode())
accelerator.end_training()
os._exit(0)  # gloo's threads now and then abort a process whose Python shuts down
