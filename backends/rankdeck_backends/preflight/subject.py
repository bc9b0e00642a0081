"""What checks look at: the pool's nodes with what was read there, and what is to be run on them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rankdeck_backends.preflight.accelerators import Accelerators
from rankdeck_backends.preflight.recounted import Recounted, recounted
from rankdeck_profiles.fabric.choice import Choice, choose
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.readings import Readings


@dataclass(frozen=True, slots=True)
class Asked:
    """What the pool is checked for. Everything may be unknown."""

    framework: str = "torchrun"
    env: Mapping[str, str] = field(default_factory=dict)
    """The profile's own variables, which win over all others."""
    slots: int | None = None
    """Ranks a node; None: one a GPU."""
    slots_of: Mapping[str, int] = field(default_factory=dict)
    """Ranks of the nodes for which it is another number."""
    gpus_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The indices of the GPUs that a node's ranks use, where the pool or the person chose some."""
    master_port: int | None = None
    took_port: bool = False
    """True: the profile names no port, and this one was free on the head when the nodes were asked."""
    interface: str | None = None
    """The pool's `interface`: the one to reach other nodes by."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The address that each node is known by, where that is settled; else it is found from the readings."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The framework's own options."""
    open_mpi: int | None = None
    """Open MPI's major version; 0: the MPI is another one; None: not known."""
    communication: str | None = None
    """The profile's communication_backend: `nccl`, `gloo`, `mpi`; None: the program decides."""
    recorded: bool = False
    """True: the readings come from files. The same recording given twice stands for two such nodes."""

    @property
    def needs_gpus(self) -> bool:
        """Whether each rank is taken to need a GPU: gloo and MPI are also asked for to do without."""
        return self.communication not in ("gloo", "mpi")

    def slots_on(self, node: str) -> int | None:
        """Ranks that one node takes."""
        return self.slots_of.get(node, self.slots)


FULL_PATIENCE = 20.0
"""Seconds that a tool has to answer where no launch waits for it; one silent for so long hangs."""


@dataclass(frozen=True)
class ProbedNode:
    """One node and what was read there; what the text means is worked out once, when first asked for."""

    name: str
    readings: Readings
    used_gpus: frozenset[str] | None = None
    """The indices of the GPUs that the run uses; None: all."""

    @property
    def reached(self) -> bool:
        """Whether anything was read on it, beside why it could not be reached or looked at."""
        if "unread" in (self.readings.mapping("ssh") or {}):
            return False  # what the others know of it, such as its address, says nothing of what is on it
        return bool(self.readings.files or self.readings.commands or set(self.readings.syscalls) - {"ssh"})

    @property
    def hurried(self) -> float | None:
        """Seconds that tools had, where that was less than usual: their silence then says little."""
        patience = self.readings.number("patience")
        return patience if patience is not None and patience < FULL_PATIENCE else None

    @cached_property
    def recounted(self) -> Recounted | None:
        """The counters that were read twice; None: they were read once."""
        return recounted(self.readings)

    @cached_property
    def fabric(self) -> NodeFabric:
        """What its readings say about its network."""
        return NodeFabric(self.readings)

    @cached_property
    def hostname(self) -> str:
        """Its own name for itself; the pool's name where it does not say."""
        return self.readings.text("hostname") or self.readings.file("/proc/sys/kernel/hostname") or self.name

    @cached_property
    def gpus(self) -> Accelerators:
        """Its GPUs, as tools, drivers and the PCI bus tell of them."""
        return Accelerators(self.readings, self.used_gpus)


@dataclass(frozen=True)
class ProbedPool:
    """All nodes that were read, in the pool's order: the first is the head node."""

    nodes: tuple[ProbedNode, ...]
    asked: Asked = field(default_factory=Asked)
    unread: int = 0
    """How many nodes more there are, of which nothing is known."""

    def __iter__(self) -> Iterator[ProbedNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def choice(self) -> Choice:
        """The RDMA ports that carry the data."""
        return choose({node.name: node.fabric for node in self.nodes})

    @property
    def on_one_machine(self) -> bool:
        """Whether ranks need no network to other machines: one node, or the local backend's loopback ones.

        A recorded node alone stands for several such nodes, unless it was one of those.
        """
        addresses = self.asked.addresses.values()
        if addresses and all(is_loopback(each) for each in addresses):
            return True
        return len(self.nodes) + self.unread == 1 and not self.asked.recorded

    @property
    def distinct(self) -> tuple[ProbedNode, ...]:
        """The nodes, for comparing who they are; of one recording given twice only the first.

        The same recording twice stands for two such nodes, which would not be alike in name and identity.
        """
        if not self.asked.recorded:
            return self.nodes
        found: list[ProbedNode] = []
        for node in self.nodes:
            if all(node.readings != other.readings for other in found):
                found.append(node)
        return tuple(found)

    def others(self, node: ProbedNode) -> tuple[ProbedNode, ...]:
        """The nodes to compare one with: not those that are another copy of its recording."""
        return tuple(
            other
            for other in self.nodes
            if other is not node and not (self.asked.recorded and other.readings == node.readings)
        )

    @property
    def head(self) -> ProbedNode:
        """The node that hosts rank 0."""
        return self.nodes[0]


def is_loopback(address: str) -> bool:
    """Whether an address leads to the machine itself; one that is none does not."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
