"""What a node says of itself, as far as planning needs it.

Filled from the agent's probe, or read from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as nvidia-smi lists it."""

    index: int
    name: str
    uuid: str
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node's facts. Built by `from_probe` from the JSON the agent's `probe` answers."""

    node: str
    hostname: str
    home: str
    address: str
    """The address other nodes reach it at, on `interface`."""
    interface: str | None
    cpus: int
    """CPUs this user may run on (the affinity mask), not those installed."""
    memory_mib: int
    gpus: tuple[GpuFacts, ...] = ()
    machine: str = ""
    """Boot id: two nodes with the same one are one machine (the local backend's nodes are)."""
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """Variables of other launchers and schedulers found in the node's environment (secrets masked)."""
    free_port: int | None = None
    """A port that was free on this node when probed."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The whole answer of the probe, as recorded in facts.json."""

    def to_json(self) -> dict[str, Any]:
        """The shape recorded as facts.json, one object a node."""
        return {
            "node": self.node,
            "hostname": self.hostname,
            "home": self.home,
            "address": self.address,
            "interface": self.interface,
            "cpus": self.cpus,
            "memory_mib": self.memory_mib,
            "gpus": [
                {"index": gpu.index, "name": gpu.name, "uuid": gpu.uuid, "memory_mib": gpu.memory_mib}
                for gpu in self.gpus
            ],
            "machine": self.machine,
            "leftovers": dict(self.leftovers),
            "free_port": self.free_port,
            "raw": dict(self.raw),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeFacts:
        """The facts that `to_json` wrote.

        Raises:
            KeyError: a field without a default is missing.
        """
        return cls(
            node=data["node"],
            hostname=data["hostname"],
            home=data["home"],
            address=data["address"],
            interface=data["interface"],
            cpus=data["cpus"],
            memory_mib=data["memory_mib"],
            gpus=tuple(
                GpuFacts(gpu["index"], gpu["name"], gpu["uuid"], gpu["memory_mib"])
                for gpu in data.get("gpus", ())
            ),
            machine=data.get("machine", ""),
            leftovers=dict(data.get("leftovers", {})),
            free_port=data.get("free_port"),
            raw=dict(data.get("raw", {})),
        )
