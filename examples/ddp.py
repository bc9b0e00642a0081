"""A small PyTorch DDP training that checks itself at the end.

It runs under torchrun and under one process a rank (env://), on GPUs with NCCL if every rank has one of its
own, else on the CPU with gloo. Each rank prints lines such as ``epoch 0 step 12 loss 0.4321 samples/s 318.2``
and last ``rankdeck-demo ok world=4 first_loss=... last_loss=... checksum=...``; or it says on stderr what is
wrong, and exits with status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, SAMPLES = 16, 64, 1024
LEARNING_RATE = 0.03


class CheckFailedError(Exception):
    """The run did not do what a data-parallel training does."""


class Output:
    """Standard output, and a file that gets the very same bytes if a folder is named."""

    def __init__(self, copy_dir: Path | None, rank: int) -> None:
        self._files = [1]
        if copy_dir is not None:
            copy_dir.mkdir(parents=True, exist_ok=True)
            copy = copy_dir / f"rank-{rank:05d}.copy"
            self._files.append(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))

    def line(self, text: str) -> None:
        """Writes one line at once, not buffered: nothing is lost if this process is killed."""
        for file in self._files:
            data = f"{text}\n".encode()
            while data:
                data = data[os.write(file, data) :]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small DDP training.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--steps-per-epoch", type=int, default=20)
    parser.add_argument("--step-sleep", type=float, default=0.2, help="seconds of rest after each step")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--own-copy", type=Path, metavar="DIR", help="also write all output to DIR/rank-NNNNN.copy"
    )
    options = parser.parse_args()
    if options.steps < 1 or options.steps_per_epoch < 1 or not 1 <= options.batch_size <= SAMPLES:
        parser.error(f"--steps and --steps-per-epoch are at least 1, --batch-size is 1 to {SAMPLES}")
    return options


def choose_device() -> tuple[torch.device, dist.ProcessGroup | None]:
    """A GPU of its own for every rank of the job, with an NCCL group; or the CPU, with the gloo group.

    All ranks come to the same answer, since it rests on what they tell each other.
    """
    index = int(os.environ.get("LOCAL_RANK", "0"))
    count = torch.cuda.device_count()
    if count == 1:
        index = 0  # the only one that this rank is allowed to see
    mine = str(torch.cuda.get_device_properties(index).uuid) if index < count else None
    everyones: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    if None in everyones or len(set(everyones)) < len(everyones):
        return torch.device("cpu"), None
    torch.cuda.set_device(index)
    return torch.device("cuda", index), dist.new_group(backend="nccl")


def make_data(rank: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's own samples of a function that is the same for all."""
    teacher = torch.randn(FEATURES, 1, generator=torch.Generator().manual_seed(1)) / FEATURES**0.5
    inputs = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(1000 + rank))
    return inputs.to(device), torch.sin(inputs @ teacher).to(device)


def make_model(device: torch.device, group: dist.ProcessGroup | None) -> DistributedDataParallel:
    # Every rank begins with other weights on purpose: that they are equal in the end is DDP's work.
    torch.manual_seed(dist.get_rank())
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1)
    )
    return DistributedDataParallel(model.to(device), process_group=group)


def mean_loss(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Loss over all samples of all ranks."""
    with torch.no_grad():
        loss = torch.nn.functional.mse_loss(model(inputs), targets).cpu()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def train(
    model: DistributedDataParallel,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    options: argparse.Namespace,
    output: Output,
) -> None:
    """Plain gradient descent by hand: torch.optim takes seconds to import and does no more here."""
    for step in range(options.steps):
        began = time.perf_counter()
        chosen = torch.arange(step * options.batch_size, (step + 1) * options.batch_size) % SAMPLES
        loss = torch.nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= LEARNING_RATE * parameter.grad
        time.sleep(options.step_sleep)
        rate = options.batch_size / (time.perf_counter() - began)
        epoch = step // options.steps_per_epoch
        output.line(f"epoch {epoch} step {step} loss {loss.item():.4f} samples/s {rate:.1f}")


def checksum(model: torch.nn.Module) -> int:
    """63 bits that tell one set of weights from another."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(bytes(parameter.detach().cpu().contiguous().view(torch.uint8).flatten().tolist()))
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def check(world: int, first_loss: float, last_loss: float, own: int) -> None:
    """Raises CheckFailedError unless all ranks took part, learned, and hold the same weights."""
    ones = torch.ones(1, dtype=torch.int64)
    dist.all_reduce(ones)
    if ones.item() != world:
        raise CheckFailedError(f"{ones.item()} ranks took part, not {world}")
    if not last_loss < first_loss:
        raise CheckFailedError(f"the loss did not go down: {first_loss:.6f} before, {last_loss:.6f} after")
    sums = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(sums, torch.tensor([own]))
    if any(each.item() != own for each in sums):
        raise CheckFailedError(f"the ranks' weights differ: {[f'{each.item():016x}' for each in sums]}")


def main() -> int:
    options = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    output = Output(options.own_copy, rank)
    torch.set_num_threads(1)  # the model is tiny, and the machine may be full of ranks
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    device, group = choose_device()
    output.line(f"rank {rank} of {world} on {device}, torch {torch.__version__}")

    inputs, targets = make_data(rank, device)
    model = make_model(device, group)
    first_loss = mean_loss(model.module, inputs, targets)
    train(model, inputs, targets, options, output)
    last_loss = mean_loss(model.module, inputs, targets)

    own = checksum(model)
    try:
        check(world, first_loss, last_loss, own)
    except CheckFailedError as error:
        print(f"rankdeck-demo failed on rank {rank}: {error}", file=sys.stderr)
        return 1
    losses = f"first_loss={first_loss:.6f} last_loss={last_loss:.6f}"
    output.line(f"rankdeck-demo ok world={world} {losses} checksum={own:016x}")
    dist.barrier()  # none takes its connections down while another is still in the last exchange
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Past the interpreter's own end: a thread of gloo that still wants its lock then would abort the process
    # ("terminate called without an active exception", seen in about one rank of 80 with torch 2.13).
    os._exit(status)
