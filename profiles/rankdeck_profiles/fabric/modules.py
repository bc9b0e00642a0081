"""Kernel modules (/proc/modules) and PCI functions (/sys/bus/pci/devices)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdeck_profiles.readings import Readings

MELLANOX = "0x15b3"
NVIDIA = "0x10de"
AMAZON = "0x1d0f"
AMD = "0x1002"

_VERSION = re.compile(r"(MLNX_OFED_LINUX|OFED-internal|OFED)-(\d+\.\d+)-([\w.]+?):?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """One loaded module."""

    name: str
    users: tuple[str, ...]
    """The modules that use it."""
    taint: str
    """`OE`: out of tree and not signed; empty: of the kernel itself."""
    line: str

    @property
    def out_of_tree(self) -> bool:
        """Built apart from the kernel: by an OFED."""
        return "O" in self.taint


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function on the PCI bus."""

    bdf: str
    kind: str
    """The class: `0x020700` is an InfiniBand controller."""
    vendor: str
    device: str

    @property
    def is_infiniband(self) -> bool:
        """An InfiniBand controller (PCI class 0207)."""
        return self.kind.startswith("0x0207")

    @property
    def is_rdma(self) -> bool:
        """Hardware that has an RDMA device once its driver is loaded."""
        ethernet = self.kind.startswith("0x0200")
        return self.is_infiniband or (
            ethernet
            and (self.vendor == MELLANOX or (self.vendor == AMAZON and self.device.startswith("0xefa")))
        )

    @property
    def is_gpu(self) -> bool:
        """A GPU of NVIDIA or AMD (classes 0300, 0302, 0380, 1200)."""
        kinds = ("0x0302", "0x0300", "0x0380", "0x1200")
        return self.vendor in (NVIDIA, AMD) and self.kind.startswith(kinds)


@dataclass(frozen=True, slots=True)
class UserStack:
    """The RDMA packages that are installed, as `ofed_info -s` names them."""

    flavour: str
    """`MLNX_OFED_LINUX`, `OFED-internal` (DOCA-OFED)."""
    version: str
    """`24.07-0.6.1.0`."""
    raw: str


def modules(readings: Readings) -> dict[str, Module] | None:
    """By name; None: the list could not be read."""
    listed = readings.file("/proc/modules")
    if listed is None:
        return None
    return {module.name: module for line in listed.splitlines() if (module := _module(line)) is not None}


def loaded(readings: Readings, name: str) -> bool | None:
    """Whether a module is there, built into the kernel included; None: not known."""
    if readings.under(f"/sys/module/{name}"):
        return True
    listed = modules(readings)
    return None if listed is None else name in listed


def pci_functions(readings: Readings) -> tuple[PciFunction, ...]:
    """The functions whose class was read, by place."""
    found = []
    for bdf in readings.names_in("/sys/bus/pci/devices"):
        files = readings.under(f"/sys/bus/pci/devices/{bdf}")
        if "class" in files:
            found.append(PciFunction(bdf, files["class"], files.get("vendor", ""), files.get("device", "")))
    return tuple(found)


def user_stack(readings: Readings) -> UserStack | None:
    """The OFED that is installed; None: none that can be asked, so the distribution's own, or not known."""
    asked = readings.command("ofed_info", "-s")
    found = None if asked is None or asked.rc != 0 else _VERSION.search(asked.stdout.strip())
    return None if found is None else UserStack(found[1], f"{found[2]}-{found[3]}", found[0].rstrip(":"))


def odd_answer(readings: Readings) -> str:
    """What came of `ofed_info -s` where it is there and names no OFED; empty: it is not there, or does."""
    asked = readings.command("ofed_info", "-s")
    if asked is None or user_stack(readings) is not None:
        return ""
    if asked.timed_out:
        return "gave no answer in time"
    lines = (asked.stdout.strip() or asked.stderr.strip()).splitlines()
    said = f"`{lines[0][:80]}`" if lines else "nothing"
    return f"said {said}" if asked.rc == 0 else f"ended with status {asked.rc} and said {said}"


def _module(line: str) -> Module | None:
    words = line.split()
    if len(words) < 5:
        return None
    users = tuple(name for name in words[3].split(",") if name and name != "-")
    taint = words[6].strip("()") if len(words) > 6 else ""
    return Module(words[0], users, taint, line.strip())
