"""RDMA devices as /sys/class/infiniband shows them.

The forms are those of the kernel's drivers/infiniband/core/sysfs.c; every file may be missing, and a value
that is not understood is None.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rankdeck_profiles.fabric.natural import natural
from rankdeck_profiles.readings import Readings, digits

ROOT = "/sys/class/infiniband"
NULL_GUID = "0000:0000:0000:0000"
AMAZON = "0x1d0f"
"""PCI vendor of EFA devices."""

_RATE = re.compile(r"^([0-9]{1,6}(?:\.[0-9]{1,6})?) Gb/sec \(([0-9]{1,4})X(?: (\w+))?\)")
_GID = re.compile(r"(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}")
_IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"


class Kind(StrEnum):
    """What a port speaks. NCCL cannot connect two kinds with each other."""

    INFINIBAND = "InfiniBand"
    ROCE = "RoCE"
    EFA = "EFA"
    IWARP = "iWARP"
    OTHER = "another kind"


@dataclass(frozen=True, slots=True)
class Rate:
    """A port's rate, such as `200 Gb/sec (4X HDR)`."""

    gbits: float
    width: int
    """Lanes."""
    generation: str
    """`HDR`; empty on older kernels."""
    raw: str

    @classmethod
    def parse(cls, text: str | None) -> Rate | None:
        """None: the text is no rate."""
        found = _RATE.match(text or "")
        if found is None:
            return None
        return cls(float(found[1]), int(found[2]), found[3] or "", found[0])


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table that is set."""

    index: int
    value: str
    """Eight groups of four hex digits."""
    type: str | None
    """`IB/RoCE v1` or `RoCE v2`."""
    netdev: str | None

    @property
    def prefix(self) -> str:
        """The subnet: the first four groups."""
        return self.value[:19]

    @property
    def ipv4(self) -> ipaddress.IPv4Address | None:
        """The IPv4 address that it stands for, if it does."""
        if not self.value.startswith(_IPV4_MAPPED):
            return None
        return ipaddress.IPv4Address(bytes.fromhex(self.value[-9:].replace(":", "")))


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a device."""

    device: str
    number: int
    kind: Kind
    state: str | None
    """`ACTIVE`, `DOWN`, `INIT`, `ARMED`."""
    phys: str | None
    """`LinkUp`, `Polling`, `Disabled`."""
    rate: Rate | None
    link_layer: str | None
    sm_lid: int | None
    gids: tuple[Gid, ...] = ()
    pkeys: Mapping[int, int] = field(default_factory=dict)
    """Index -> key, unset ones left out; bit 15 says full member."""
    counters: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As UCX names it: `mlx5_0:1`."""
        return f"{self.device}:{self.number}"

    @property
    def path(self) -> str:
        """Its folder in /sys."""
        return f"{ROOT}/{self.device}/ports/{self.number}"

    @property
    def active(self) -> bool:
        """Whether data can flow."""
        return self.state == "ACTIVE"

    @property
    def linked(self) -> bool:
        """Whether the cable has a link, so that its rate means something."""
        return self.active or self.phys == "LinkUp"

    @property
    def gbits(self) -> float:
        """Its rate in Gbit/s; 0: it tells none."""
        return self.rate.gbits if self.rate else 0.0

    @property
    def roce_gid(self) -> Gid | None:
        """The lowest GID that RoCE v2 over IPv4 can use: what NCCL 2.21 and later choose by themselves."""
        return next((gid for gid in self.gids if gid.type == "RoCE v2" and gid.ipv4 is not None), None)


@dataclass(frozen=True, slots=True)
class Device:
    """One RDMA device: a card's function."""

    name: str
    node_type: str | None
    """`CA`, `RNIC`, `unspecified`."""
    node_guid: str | None
    sys_image_guid: str | None
    hca_type: str | None
    firmware: str | None
    board_id: str | None
    vendor: str | None
    bdf: str | None
    """Its place on the PCI bus: `0000:1b:00.0`."""
    link_speed: str | None
    max_link_speed: str | None
    link_width: str | None
    max_link_width: str | None
    netdevs: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()

    @property
    def is_efa(self) -> bool:
        """An Elastic Fabric Adapter has no GUID and no link layer, and that is right so."""
        return self.vendor == AMAZON

    @property
    def null_guid(self) -> bool:
        """A virtual function that nobody gave a GUID: no subnet manager will let it in."""
        return self.node_guid == NULL_GUID and not self.is_efa

    @property
    def path(self) -> str:
        """Its folder in /sys."""
        return f"{ROOT}/{self.name}"


def devices(readings: Readings) -> tuple[Device, ...]:
    """All RDMA devices, in natural order of their names (mlx5_2 before mlx5_10)."""
    found = [_device(name, readings.under(f"{ROOT}/{name}")) for name in readings.names_in(ROOT)]
    return tuple(sorted(found, key=lambda device: natural(device.name)))


def _device(name: str, files: Mapping[str, str]) -> Device:
    node_type = _word(files.get("node_type"))
    vendor = files.get("device/vendor")
    numbers = sorted({n for path in files if (n := digits(_place(path, "ports"))) is not None})
    return Device(
        name=name,
        node_type=node_type,
        node_guid=files.get("node_guid"),
        sys_image_guid=files.get("sys_image_guid"),
        hca_type=files.get("hca_type"),
        firmware=files.get("fw_ver"),
        board_id=files.get("board_id"),
        vendor=vendor,
        bdf=_slot(files.get("device/uevent")),
        link_speed=files.get("device/current_link_speed"),
        max_link_speed=files.get("device/max_link_speed"),
        link_width=files.get("device/current_link_width"),
        max_link_width=files.get("device/max_link_width"),
        netdevs=tuple(sorted({net for path in files if (net := _place(path, "device/net"))})),
        ports=tuple(_port(name, number, node_type, vendor, files) for number in numbers),
    )


def _port(
    device: str, number: int, node_type: str | None, vendor: str | None, files: Mapping[str, str]
) -> Port:
    start = f"ports/{number}/"
    own = {path[len(start) :]: text for path, text in files.items() if path.startswith(start)}
    layer = own.get("link_layer")
    return Port(
        device=device,
        number=number,
        kind=_kind(node_type, vendor, layer),
        state=_word(own.get("state")),
        phys=_word(own.get("phys_state")),
        rate=Rate.parse(own.get("rate")),
        link_layer=layer,
        sm_lid=_hex(own.get("sm_lid")),
        gids=_gids(own),
        pkeys=_pkeys(own),
        counters={
            path.removeprefix("counters/"): text for path, text in own.items() if "counters/" in path[:9]
        },
    )


def _kind(node_type: str | None, vendor: str | None, layer: str | None) -> Kind:
    if node_type == "RNIC":
        return Kind.IWARP
    if vendor == AMAZON:
        return Kind.EFA
    return {"InfiniBand": Kind.INFINIBAND, "Ethernet": Kind.ROCE}.get(layer or "", Kind.OTHER)


def _gids(own: Mapping[str, str]) -> tuple[Gid, ...]:
    found = []
    for path, value in own.items():
        index = digits(path.removeprefix("gids/")) if path.startswith("gids/") else None
        if index is not None and value.strip("0:") and _GID.fullmatch(value):
            kind, netdev = own.get(f"gid_attrs/types/{index}"), own.get(f"gid_attrs/ndevs/{index}")
            found.append(Gid(index, value.lower(), kind, netdev))
    return tuple(sorted(found, key=lambda gid: gid.index))


def _pkeys(own: Mapping[str, str]) -> dict[int, int]:
    keys = {
        path.removeprefix("pkeys/"): _hex(text) for path, text in own.items() if path.startswith("pkeys/")
    }
    numbered = ((digits(index), key) for index, key in sorted(keys.items()))
    return {index: key for index, key in numbered if index is not None and key}


def _place(path: str, folder: str) -> str:
    """The name of what is in a folder, if the path is below it; else nothing."""
    return path[len(folder) + 1 :].partition("/")[0] if path.startswith(folder + "/") else ""


def _slot(uevent: str | None) -> str | None:
    for line in (uevent or "").splitlines():
        if line.startswith("PCI_SLOT_NAME="):
            return line.partition("=")[2].strip().lower()
    return None


def _word(text: str | None) -> str | None:
    """`4: ACTIVE` is `ACTIVE`."""
    if text is None:
        return None
    return text.partition(":")[2].strip() or None


def _hex(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None
