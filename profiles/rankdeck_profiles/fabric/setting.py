"""A variable of the fabric rules, and what a rule is given to decide on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from rankdeck_profiles.fabric.choice import Choice
from rankdeck_profiles.fabric.gpudirect import GpuDirect, gpudirect
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.sockets import Meeting
from rankdeck_profiles.versions import Version


@dataclass(frozen=True, slots=True)
class FabricSetting:
    """One variable on one node, and why."""

    name: str
    value: str
    why: str
    rule: str
    """A short name of the rule, for the docs: `hca`, `sockets`."""


Wanted = Iterable[FabricSetting]


@dataclass(frozen=True)
class Pool:
    """What the rules look at."""

    nodes: Mapping[str, NodeFabric]
    choice: Choice
    meeting: Meeting
    interface: str | None
    """The interface that the user names."""
    mpi: bool
    """The ranks are an mpirun's."""
    open_mpi: int | None
    """Open MPI's major version; 0: another MPI; None: not known."""
    nccl: Version | None
    """None: not known, so a recent one."""

    @cached_property
    def gpudirect(self) -> tuple[GpuDirect, ...]:
        """How far GPUDirect RDMA goes on each node where that is known: asked for once, not by every node."""
        return tuple(found for node in self.nodes.values() if (found := gpudirect(node)) is not None)
