"""The demo run: two nodes of this machine with two ranks each, training for real, and proof that they did."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import BackendKind, Pool, Profile
from rankdeck_profiles.nodes import expand
from rankdeck_runs.record import Record
from rankdeck_runs.states import RankState, RunSnapshot, RunState

NODES = ("127.0.0.1", "127.0.0.2")
PROCS_PER_NODE = 2
WORLD_SIZE = len(NODES) * PROCS_PER_NODE

_OK_LINE = re.compile(
    r"rankdeck-demo ok world=(\d+) first_loss=([0-9.]+) last_loss=([0-9.]+) checksum=([0-9a-f]{16})", re.ASCII
)


class DemoError(RankdeckError):
    """The demo can't be run."""


@dataclass(frozen=True, slots=True)
class Training:
    """What a rank says of its training in its last line."""

    world_size: int
    first_loss: float
    last_loss: float
    checksum: str
    """Of the weights at the end."""


def script() -> Path:
    """The demo's training script: in an installed package beside the code, in a source tree in examples/."""
    package = Path(__file__).parents[1]
    for path in (package / "demo" / "ddp.py", package.parents[1] / "examples" / "ddp.py"):
        if path.is_file():
            return path
    raise DemoError(f"the demo's script is missing from {package}/demo", "install rankdeck again")


def python_with_torch(wish: str | None) -> str:
    """The interpreter for the ranks.

    Args:
        wish: a path or a name on PATH; None: our own if it has torch, else the first python3 on PATH.

    Raises:
        DemoError: it is not there, or it has no torch.
    """
    if wish is None:
        candidates = [sys.executable, shutil.which("python3")]
    else:
        candidates = [shutil.which(os.path.expanduser(wish))]
        if candidates == [None]:
            raise DemoError(f"--python {wish}: there is no such program", "name a Python that has torch")
    tried = [os.path.abspath(python) for python in candidates if python]
    for python in tried:
        if _has_torch(python):
            return python
    raise DemoError(
        f"the demo trains with PyTorch, and no torch is installed for {' or '.join(dict.fromkeys(tried))}",
        "install it there ('python -m pip install torch numpy'), or name another with --python PATH",
    )


def profile(python: str, workdir: Path, arguments: Iterable[str]) -> Profile:
    """The demo as a profile."""
    return Profile(
        name="demo",
        framework="torchrun",
        script=str(script()),
        args=tuple(arguments),
        python=python,
        workdir=str(workdir),
        pool="demo",
        procs_per_node=PROCS_PER_NODE,
        metrics={"loss": r"loss ([0-9.]+)"},
    )


def pool() -> Pool:
    """Two nodes of this machine."""
    return Pool("demo", BackendKind.LOCAL, expand(NODES), slots=PROCS_PER_NODE)


def trainings(record: Record) -> dict[int, Training]:
    """What each rank's last line says; ranks without such a line are left out."""
    found = {}
    for rank in range(WORLD_SIZE):
        path = record.log(rank, "out").path
        lines = path.read_bytes().splitlines() if path.exists() else []
        match = _OK_LINE.fullmatch(lines[-1].decode("utf-8", "replace")) if lines else None
        if match:
            found[rank] = Training(int(match[1]), float(match[2]), float(match[3]), match[4])
    return found


def problems(snapshot: RunSnapshot, record: Record, copies: Path) -> list[str]:
    """Everything that shows that the run was not a data-parallel training of four ranks. Empty: it was.

    Args:
        snapshot: the run at its end.
        record: its record.
        copies: where each rank wrote its own copy of its output.
    """
    found = []
    if snapshot.state is not RunState.SUCCEEDED:
        found.append(f"the run's state is {snapshot.state}, not succeeded")
    good = [rank for rank in snapshot.ranks if rank.state is RankState.SUCCEEDED and rank.exit_code == 0]
    if len(good) != WORLD_SIZE:
        found.append(f"{len(good)} of {WORLD_SIZE} ranks are on record as succeeded with exit status 0")
    if len({rank.node for rank in good}) != len(NODES):
        found.append(f"the ranks ran on {len({rank.node for rank in good})} nodes, not {len(NODES)}")
    said = trainings(record)
    for rank in range(WORLD_SIZE):
        training = said.get(rank)
        if training is None:
            found.append(f"rank {rank}'s log does not end with its word that the training went well")
            continue
        if training.world_size != WORLD_SIZE:
            found.append(f"rank {rank} saw a world of {training.world_size}, not {WORLD_SIZE}")
        if not training.last_loss < training.first_loss:
            losses = f"{training.first_loss} to {training.last_loss}"
            found.append(f"rank {rank}'s loss did not go down: from {losses}")
    if len({training.checksum for training in said.values()}) > 1:
        found.append("the ranks hold different weights at the end")
    found.extend(_differing_logs(record, copies))
    return found


def _differing_logs(record: Record, copies: Path) -> list[str]:
    found = []
    for rank in range(WORLD_SIZE):
        own, ours = copies / f"rank-{rank:05d}.copy", record.log(rank, "out").path
        if not own.exists() or not ours.exists() or own.read_bytes() != ours.read_bytes():
            found.append(f"rank {rank}'s log on record is not what the rank wrote ({own})")
    return found


def _has_torch(python: str) -> bool:
    """Looks without importing it, which takes seconds."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        # From / : a folder named torch in the working directory is not torch.
        looked = subprocess.run([python, "-c", look], cwd="/", capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return looked.returncode == 0
