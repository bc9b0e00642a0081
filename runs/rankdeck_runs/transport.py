"""Which network a rank's libraries really use, from what they write into its log. Pure.

NCCL names it with NCCL_DEBUG=INFO, in a rank's first lines (2.4 to 2.30: src/init.cc, src/transport/net.cc,
net_ib.cc, net_socket.cc, src/graph/topo.cc); UCX with UCX_LOG_LEVEL=info, once for each way between two
processes (ucp_worker.c); torch's Gloo says that it is connected, and has TCP alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rankdeck_profiles.nodes import folded
from rankdeck_runs.values import integer, strings, text

READ_LIMIT = 512 << 10
"""Bytes of each log in which it is looked for: 8 GPUs a node with 32 channels write some 100 KiB."""
REASONS_KEPT = 4
_LONGEST_REASON = 200


class Network(StrEnum):
    """What data goes over between nodes."""

    INFINIBAND = "InfiniBand"
    ROCE = "RoCE"
    RDMA = "RDMA"
    """InfiniBand or RoCE: the library does not say which."""
    LIBFABRIC = "Libfabric"
    SOCKETS = "sockets"
    PLUGIN = "plugin"
    """A network plugin that is not known here; `Transport.name` is what it calls itself."""
    NONE = "none"
    """All ranks are on one node: none is needed."""


@dataclass(frozen=True, slots=True)
class Transport:
    """What one library of one rank says of its network."""

    library: str
    """`NCCL`, `UCX` or `Gloo`."""
    network: Network
    name: str = ""
    """In the library's own words: `IB`, `Socket`, `IBext_v8`, `AWS Libfabric`, `rc_mlx5`."""
    devices: tuple[str, ...] = ()
    """`mlx5_0`, or `eno1` for sockets; empty where it names none."""
    gpu_direct: bool | None = None
    """Whether cards read and write GPU memory by themselves; None: not said, or no such thing."""
    connected: bool = False
    """True: connections were made over it; False: it was chosen, and no connection is known of."""
    nodes: int = 0
    """Nodes that take part, as far as the library says; 0: it does not."""
    reasons: tuple[str, ...] = ()
    """Lines that tell why a better one was not taken."""

    @property
    def words(self) -> str:
        """`InfiniBand mlx5_[0-7], GPU direct`; `sockets over eno1`."""
        if self.network is Network.NONE:
            return "one node, no network"
        if self.network is Network.PLUGIN:
            what = f"plugin {self.name}"
        elif self.network is Network.LIBFABRIC and self.name not in ("", "Libfabric", "AWS Libfabric", "OFI"):
            what = f"Libfabric {self.name}"
        else:
            what = str(self.network)
        if self.devices:
            what += f"{' over' if self.network is Network.SOCKETS else ''} {folded(self.devices)}"
        if self.gpu_direct is None or self.network is Network.SOCKETS:
            return what
        return f"{what}, {'GPU direct' if self.gpu_direct else 'no GPU direct'}"

    def to_json(self) -> dict[str, Any]:
        """The entry in a rank's `transports` of `show --json`, and in the event that records it."""
        return {
            "library": self.library,
            "network": str(self.network),
            "name": self.name,
            "devices": list(self.devices),
            "gpu_direct": self.gpu_direct,
            "connected": self.connected,
            "nodes": self.nodes,
            "reasons": list(self.reasons),
        }

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Transport | None:
        """What `to_json` made; None for anything else."""
        try:
            network = Network(text(shape, "network"))
        except ValueError:
            return None
        direct = shape.get("gpu_direct")
        return cls(
            text(shape, "library"),
            network,
            text(shape, "name"),
            tuple(strings(shape, "devices")),
            direct if isinstance(direct, bool) else None,
            shape.get("connected") is True,
            integer(shape, "nodes") or 0,
            tuple(strings(shape, "reasons")),
        )


class TransportReader:
    """Reads one log, line by line, for as long as it may say something new.

    Attributes:
        settled: nothing that matters will follow.
    """

    def __init__(self) -> None:
        self.settled = False
        self._rest = b""
        self._read = 0
        self._nccl = _Nccl()
        self._ucx = _Ucx()
        self._gloo = False

    @property
    def offset(self) -> int:
        """Bytes taken in."""
        return self._read

    def feed(self, data: bytes) -> None:
        """Take in the log's next bytes."""
        data = data[: READ_LIMIT - self._read]
        self._read += len(data)
        data = self._rest + data
        if any(sign in data for sign in _SIGNS):
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                self._take(line)
        else:  # 64 ranks write 64,000 lines a second: to look at each would cost as much as following them
            self._rest = data[data.rfind(b"\n") + 1 :]
        self.settled = self._nccl.settled or self._read >= READ_LIMIT

    def found(self) -> tuple[Transport, ...]:
        """What each library has said so far."""
        gloo = Transport("Gloo", Network.SOCKETS, "tcp", connected=True) if self._gloo else None
        return tuple(each for each in (self._nccl.told(), self._ucx.told(), gloo) if each is not None)

    def _take(self, line: bytes) -> None:
        # Of a log's many lines few are a library's: the cheap look comes first.
        if b" NCCL " in line:
            self._nccl.take(line.decode("utf-8", "replace"))
        elif b" UCX " in line:
            self._ucx.take(line.decode("utf-8", "replace"))
        elif line.startswith(b"[Gloo] Rank ") and b" connected to 0 peer" not in line:
            self._gloo = b" is connected to " in line or self._gloo


_SIGNS = (b" NCCL ", b" UCX ", b"[Gloo] Rank ")
"""One of them is in every line that matters."""
_NCCL_LINE = re.compile(r" NCCL (INFO|WARN) (.*)")
_USING_NETWORK = re.compile(r"Using network (.+)")
_IB_PORT = re.compile(r"([\w.-]+):\d+/(IB|RoCE)\b")
_SOCKET_INTERFACE = re.compile(r"\[\d+\]([^\s:]+):")
_VIA_NETWORK = re.compile(r"(?:Channel|Ring) .* via NET/([^/]+)/\d+(.*)")
_NODES = re.compile(r"comm \S+ rank \d+ nRanks \d+ nNodes (\d+) ")
_OFI_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]+)")
_CONNECTED = re.compile(r"Connected all (rings|trees)")
_REASON = re.compile(
    r"NET/IB : No device found|Failed to initialize NET plugin (?!Socket)|NCCL_(IB_DISABLE|NET) set by "
    r"|NET/Plugin.*(?:Failed|failed|Error)|NET/OFI .*(?:[Nn]o eligible|[Ff]ailed)"
    r"|(?:ibv_|NET/IB).*(?:fail|unable|Unable)"
)


class _Nccl:
    """What NCCL's lines have said."""

    def __init__(self) -> None:
        self._name = ""
        self._ports: dict[str, str] = {}
        self._interfaces: tuple[str, ...] = ()
        self._provider = ""
        self._via: set[str] = set()
        self._direct: set[bool] = set()
        self._nodes = 0
        self._reasons: dict[str, None] = {}
        self.settled = False

    def take(self, line: str) -> None:
        """One line of NCCL's."""
        match = _NCCL_LINE.search(line)
        if match is None:
            return
        level, said = match[1], match[2].strip()
        if found := _VIA_NETWORK.search(said):
            self._via.add(found[1])
            self._direct.add("/GDRDMA" in found[2])
        elif found := _USING_NETWORK.fullmatch(said):
            self._name = self._name or found[1]
        elif said.startswith("NET/IB : Using"):
            self._ports.update(_IB_PORT.findall(said.partition("; OOB")[0]))
        elif said.startswith("NET/Socket : Using"):
            self._interfaces = tuple(_SOCKET_INTERFACE.findall(said))
        elif found := _OFI_PROVIDER.search(said):
            self._provider = found[1]
        elif found := _NODES.search(said):
            self._nodes = max(self._nodes, int(found[1]))
        elif _CONNECTED.match(said):
            self.settled = bool(self._via)
        if (level == "WARN" or not self._via) and _REASON.search(said):
            self._reasons.setdefault(said[:_LONGEST_REASON])

    def told(self) -> Transport | None:
        """None: it has not said anything of its network."""
        # Where one channel goes over sockets, the run waits for that one.
        name = "Socket" if "Socket" in self._via else next(iter(sorted(self._via)), self._name)
        if not name:
            return None
        if self._nodes == 1 and not self._via:
            return Transport("NCCL", Network.NONE, name, nodes=1)
        network = self._network(name)
        sockets = network is Network.SOCKETS
        return Transport(
            library="NCCL",
            network=network,
            name=self._provider if network is Network.LIBFABRIC and self._provider else name,
            devices=self._interfaces if sockets else tuple(self._ports),
            gpu_direct=all(self._direct) if self._direct and not sockets else None,
            connected=bool(self._via),
            nodes=self._nodes,
            reasons=tuple(self._reasons)[:REASONS_KEPT] if sockets else (),
        )

    def _network(self, name: str) -> Network:
        if name == "Socket":
            return Network.SOCKETS
        if "Libfabric" in name or name == "OFI":
            return Network.LIBFABRIC
        if not name.startswith("IB"):
            return Network.PLUGIN
        kinds = set(self._ports.values())
        return (
            {"IB": Network.INFINIBAND, "RoCE": Network.ROCE}[kinds.pop()] if len(kinds) == 1 else Network.RDMA
        )


_UCX_WAY = re.compile(
    r" UCX +INFO .*?(?:(?P<where>self|intra-node|inter-node) cfg#\d+|ep_cfg\[\d+\]:) *(?P<lanes>\w+\(.*)"
)
_LANE = re.compile(r"\b([a-z]\w*)/([\w.-]+)")
_RDMA_LANES = ("rc", "dc", "ud", "gga")
_OWN_NODE = ("self", "sysv", "posix", "cma", "knem", "xpmem", "mm", "shm", "cuda", "rocm", "gdr", "ze")


class _Ucx:
    """What UCX's lines have said. It names ways to one process each: those to another node count."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], None] = {}
        self._says_where = False

    def take(self, line: str) -> None:
        """One line of UCX's."""
        match = _UCX_WAY.search(line)
        if match is None:
            return
        lanes = [(kind, device) for kind, device in _LANE.findall(match["lanes"]) if not _within(kind)]
        if match["where"] is not None:
            if match["where"] != "inter-node":
                return
        elif len(lanes) < len(_LANE.findall(match["lanes"])):
            return  # before 1.14 it does not say where to: a way with shared memory in it stays on the node
        self._lanes.update(dict.fromkeys(lanes))

    def told(self) -> Transport | None:
        """None: it has named no way to another node."""
        if not self._lanes:
            return None
        fast = [lane for lane in self._lanes if lane[0].split("_")[0] in _RDMA_LANES]
        slow = [lane for lane in self._lanes if lane[0] == "tcp"]
        chosen, network = (fast, Network.RDMA) if fast else (slow, Network.SOCKETS)
        if not chosen:
            chosen, network = list(self._lanes), Network.PLUGIN
        devices = tuple(dict.fromkeys(device.partition(":")[0] for _, device in chosen))
        return Transport("UCX", network, chosen[0][0], devices, connected=True)


def _within(kind: str) -> bool:
    return kind.split("_")[0] in _OWN_NODE


@dataclass(frozen=True, slots=True)
class Fabric:
    """The RDMA ports that a run's nodes have for data, as preflight read them before the start."""

    kind: str
    """`InfiniBand`, `RoCE`, `EFA`."""
    ports: Mapping[str, tuple[str, ...]]
    """Node -> `mlx5_0:1`."""

    @property
    def words(self) -> str:
        """`InfiniBand mlx5_[0-7]`; the devices of the first node, where nodes differ."""
        first = next(iter(self.ports.values()), ())
        return f"{self.kind} {folded(port.partition(':')[0] for port in first)}"

    def to_json(self) -> dict[str, Any]:
        """The `fabric` of `show --json`, and of the event that records the run."""
        return {"kind": self.kind, "ports": {node: list(ports) for node, ports in self.ports.items()}}

    @classmethod
    def from_json(cls, shape: object) -> Fabric | None:
        """What `to_json` made; None for anything else."""
        if not isinstance(shape, dict) or not isinstance(shape.get("ports"), dict):
            return None
        ports = {str(node): tuple(strings(shape["ports"], node)) for node in shape["ports"]}
        return cls(text(shape, "kind"), ports) if any(ports.values()) else None


def unused(transports: Iterable[Transport], fabric: Fabric | None) -> Transport | None:
    """The library that sends over sockets although the nodes have a fabric; None: none does.

    Gloo is none: it has TCP alone, and carries what is not data in most runs. A network that was chosen for
    a job of one node, or of who knows how many, is not in use yet.
    """
    if fabric is None:
        return None
    for each in transports:
        in_use = each.connected or each.nodes > 1
        if each.network is Network.SOCKETS and each.library != "Gloo" and in_use:
            return each
    return None
