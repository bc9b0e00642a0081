"""Network interfaces as `ip -json addr` lists them (iproute2)."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_profiles.readings import Readings, digits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HostInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

VIRTUAL = (
    "docker",
    "virbr",
    "br-",
    "veth",
    "cni",
    "cali",
    "flannel",
    "cilium",
    "lxc",
    "podman",
    "vmnet",
    "tap",
)
"""How the names of bridges for containers and virtual machines begin: their addresses are the same on every
node, and lead to no other one (docker, libvirt, compose, Kubernetes networks)."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface."""

    name: str
    up: bool
    """It was switched on (IFF_UP)."""
    running: bool
    """It is on and has a carrier (IFF_RUNNING, which `ip` calls LOWER_UP)."""
    loopback: bool
    mtu: int | None
    link_type: str
    """`ether`, `infiniband`, `loopback`; empty: not known."""
    addresses: tuple[HostInterface, ...] = ()
    speed_mbit: int | None = None
    carrier_changes: int | None = None

    @property
    def virtual(self) -> bool:
        """A bridge to containers or virtual machines on this node."""
        return self.name.startswith(VIRTUAL)

    @property
    def global_addresses(self) -> tuple[HostInterface, ...]:
        """Those that other machines can use, IPv4 first."""
        usable = [each for each in self.addresses if not (each.ip.is_loopback or each.ip.is_link_local)]
        return tuple(sorted(usable, key=lambda each: each.version))


def interfaces(readings: Readings) -> tuple[Interface, ...]:
    """All interfaces in the kernel's order; none where the node did not tell."""
    listed = readings.command("ip", "-json", "addr")
    if listed is None:
        return ()
    try:
        entries = json.loads(listed.stdout)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(entries, list):
        return ()
    return tuple(_interface(entry, readings) for entry in entries if isinstance(entry, Mapping))


def _interface(entry: Mapping[str, Any], readings: Readings) -> Interface:
    name = str(entry.get("ifname", ""))
    flags = _listed(entry.get("flags"))
    folder = f"/sys/class/net/{name}"
    mtu = entry.get("mtu")
    return Interface(
        name=name,
        up="UP" in flags,
        running="UP" in flags and "LOWER_UP" in flags,
        loopback="LOOPBACK" in flags,
        mtu=mtu if isinstance(mtu, int) else _number(readings.file(f"{folder}/mtu")),
        link_type=str(entry.get("link_type", "")),
        addresses=tuple(
            address for info in _listed(entry.get("addr_info")) if (address := _address(info)) is not None
        ),
        speed_mbit=_number(readings.file(f"{folder}/speed")),
        carrier_changes=_number(readings.file(f"{folder}/carrier_changes")),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _address(info: Any) -> HostInterface | None:
    try:
        return ipaddress.ip_interface(f"{info['local']}/{info['prefixlen']}")
    except (KeyError, TypeError, ValueError):
        return None


def _number(text: str | None) -> int | None:
    """A count; None where there is none (-1 stands for an unknown speed)."""
    return digits(text)
