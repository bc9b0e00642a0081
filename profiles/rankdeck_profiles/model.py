"""Profiles and pools as values. What the TOML files say, after checking, with defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class BackendKind(StrEnum):
    """How a pool's nodes are reached."""

    LOCAL = "local"
    SSH = "ssh"
    """By rankdeck's own SSH client; by the system's where that one gets further."""
    OPENSSH = "openssh"
    """By the system's `ssh` program alone."""


class CommBackend(StrEnum):
    """The library that the ranks exchange tensors with."""

    NCCL = "nccl"
    GLOO = "gloo"
    MPI = "mpi"


class OnRankFailure(StrEnum):
    """What happens to the other ranks when one fails."""

    STOP = "stop"
    KEEP = "keep"


BARRIER_TIMEOUT = 600.0
"""Seconds: a module system or a Python environment on a cold network file system takes minutes."""


@dataclass(frozen=True, slots=True)
class StopPolicy:
    """How a run's ranks are ended."""

    signal: str = "TERM"
    """Name of the first signal, without SIG."""
    grace: float = 60.0
    """Seconds between that signal and SIGKILL: time to write a checkpoint."""
    on_rank_failure: OnRankFailure = OnRankFailure.STOP


@dataclass(frozen=True, slots=True)
class Profile:
    """A saved run description."""

    name: str
    framework: str
    script: str | None = None
    """A Python file, relative to `workdir`. Exactly one of script, module and command is given."""
    module: str | None = None
    """A Python module, as for `python -m`."""
    command: tuple[str, ...] = ()
    """Any program and its first arguments."""
    args: tuple[str, ...] = ()
    workdir: str = "."
    """The program's working directory on every node; absolute, or starting with `~` (the node's home)."""
    python: str = "python3"
    """The interpreter on the nodes that runs script or module, and torchrun."""
    setup: tuple[str, ...] = ()
    """Shell lines run on each node before the program; the environment they leave is the program's."""
    pool: str | None = None
    nodes: int | None = None
    """How many nodes of the pool to use; None: all."""
    procs_per_node: int | None = None
    process_count: int | None = None
    """The world size, as an alternative to procs_per_node."""
    master_port: int | None = None
    """None: a free port of the head node is asked for."""
    env: Mapping[str, str] = field(default_factory=dict)
    env_from: tuple[str, ...] = ()
    """Names whose values are taken from the login shell, passed over stdin and never recorded."""
    communication_backend: CommBackend | None = None
    """Told to the program as RANKDECK_COMM_BACKEND, and to the framework where it has a way of its own."""
    azure_names: bool = False
    """True: also the names by which scripts written for Azure Batch and Azure ML find the head node."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The framework's own settings, checked by the framework."""
    stop: StopPolicy = StopPolicy()
    barrier_timeout: float = BARRIER_TIMEOUT
    """Seconds for all nodes to be ready to start their ranks, which begin together."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric name -> regular expression with one group, or with named groups: a metric each."""
    source: Path | None = None
    """The file it came from."""


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node as the pool names it."""

    name: str
    """What people see and type; unique in the pool."""
    host: str
    """What the backend connects to: a host name, an ~/.ssh/config alias or a loopback address."""
    user: str | None = None
    port: int | None = None
    slots: int | None = None
    """How many ranks this node takes; None: as the pool says."""
    gpus: tuple[int, ...] | None = None
    """The GPUs to use, by the numbers of nvidia-smi; None: all there are, but for `hidden_gpus`."""
    hidden_gpus: tuple[int, ...] = ()
    """GPUs to leave alone, where it is not known how many there are."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A set of nodes and how to reach them."""

    name: str
    backend: BackendKind
    nodes: tuple[PoolNode, ...]
    slots: int | None = None
    """How many ranks a node takes; None: the number of GPUs found, else 1."""
    interface: str | None = None
    """The network interface for rendezvous and data; None: the one that holds the node's address."""
    source: Path | None = None
    notes: tuple[str, ...] = ()
    """What was noticed in reading it that a person should know."""
