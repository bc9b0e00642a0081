"""What a node says of itself, as far as planning needs it.

Filled from the agent's probe, or read from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rankdeck_profiles.readings import Readings


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as nvidia-smi lists it."""

    index: int
    name: str
    uuid: str
    memory_mib: int | None


class MpiFamily(StrEnum):
    """Whose mpirun it is. They share a name and little else."""

    OPEN_MPI = "openmpi"
    MPICH = "mpich"
    INTEL = "intel"
    OTHER = "other"
    """One that we write no command line for; its own words are in `MpiFacts.note`."""
    NONE = "none"
    """The node has no mpirun; why is in `MpiFacts.note`."""


@dataclass(frozen=True, slots=True)
class MpiFacts:
    """The mpirun that a node finds, after the profile's setup lines."""

    family: MpiFamily
    version: str = ""
    """As `mpirun --version` says it: `4.1.4`, `2021.14`."""
    path: str = ""
    """Where it is on PATH, links not followed: Open MPI finds its own files from this."""
    library: MpiFamily | None = None
    """The MPI that the profile's python loads through mpi4py; None: no mpi4py, or not asked."""
    library_version: str = ""
    note: str = ""
    """The first line of what it printed, where family is `other`; why there is none, where it is `none`."""


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
    network: str | None = None
    """The network that `address` is in, such as `10.0.0.0/24`; None: not known."""
    uid: int | None = None
    """0 is root: some launchers refuse to run for it. None: not known."""
    mpi: MpiFacts | None = None
    """None: the node was not asked."""
    software: Mapping[str, str] = field(default_factory=dict)
    """Version by distribution name (`torch`, `lightning`, `mpi4py`), for the profile's python."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The whole answer of the probe, as recorded in facts.json."""
    readings: Readings | None = None
    """What preflight read, from which the fabric's variables follow; None: nothing was. Not in facts.json."""

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
            "network": self.network,
            "uid": self.uid,
            "mpi": _mpi_json(self.mpi),
            "software": dict(self.software),
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
            network=data.get("network"),
            uid=data.get("uid"),
            mpi=mpi_from_json(data.get("mpi")),
            software=dict(data.get("software", {})),
            raw=dict(data.get("raw", {})),
        )


def mpi_from_json(data: Mapping[str, Any] | None) -> MpiFacts | None:
    """The MPI of a probe's answer, or of facts.json. A family that is not known is `other`.

    Raises:
        KeyError: there is no family.
    """
    if data is None:
        return None
    library = data.get("library")
    return MpiFacts(
        family=_family(data["family"]),
        version=data.get("version", ""),
        path=data.get("path", ""),
        library=None if library is None else _family(library),
        library_version=data.get("library_version", ""),
        note=data.get("note", ""),
    )


def _mpi_json(mpi: MpiFacts | None) -> dict[str, Any] | None:
    if mpi is None:
        return None
    return {
        "family": mpi.family.value,
        "version": mpi.version,
        "path": mpi.path,
        "library": mpi.library.value if mpi.library else None,
        "library_version": mpi.library_version,
        "note": mpi.note,
    }


def _family(text: str) -> MpiFamily:
    return MpiFamily(text) if text in list(MpiFamily) else MpiFamily.OTHER
