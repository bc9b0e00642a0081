"""The GPUs of one node, from three sources that may differ: the PCI bus, the driver, and nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rankdeck_backends.preflight.nvidia_smi import Smi
from rankdeck_profiles.readings import Readings

NVIDIA, AMD = "0x10de", "0x1002"
"""PCI vendors (pci.ids)."""

_NVIDIA_GPU = ("0x0302", "0x0300")
"""3D and VGA controllers; an NVSwitch (0x0680), a sound function (0x0403), a USB port (0x0c03) are none."""

_AMD_GPU = ("0x1200", "0x0302", "0x0380")
"""Processing accelerators, 3D and display controllers: not the VGA (0x0300) of a processor with graphics."""

_NVSWITCH = "0x0680"

_VERSION = re.compile(r"NVRM version:.*?\s([0-9]+(?:\.[0-9]+)+)\s")

_PCI = "/sys/bus/pci/devices"
_KFD = "/sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True)
class Accelerators:
    """What is known of a node's GPUs. Everything is worked out once, when first asked for."""

    readings: Readings
    used: frozenset[str] | None = None
    """The indices of the NVIDIA GPUs that the run uses; None: all."""

    @cached_property
    def smi(self) -> Smi:
        """What nvidia-smi said, of the GPUs that the run uses."""
        return Smi(self.readings, self.used)

    @cached_property
    def pci(self) -> Mapping[str, tuple[str, str]]:
        """PCI function -> (vendor, class), of all devices that were read."""
        functions = self.readings.names_in(_PCI)
        return {
            name: (
                (self.readings.file(f"{_PCI}/{name}/vendor") or "").lower(),
                (self.readings.file(f"{_PCI}/{name}/class") or "").lower(),
            )
            for name in functions
        }

    @cached_property
    def nvidia_functions(self) -> tuple[str, ...]:
        """The PCI functions that are NVIDIA GPUs."""
        return self._functions(NVIDIA, _NVIDIA_GPU)

    @cached_property
    def amd_functions(self) -> tuple[str, ...]:
        """The PCI functions that are AMD accelerators."""
        return self._functions(AMD, _AMD_GPU)

    @cached_property
    def has_nvswitch(self) -> bool:
        """True: an NVSwitch stands on the bus, so the GPUs need the Fabric Manager."""
        return any(vendor == NVIDIA and kind.startswith(_NVSWITCH) for vendor, kind in self.pci.values())

    @cached_property
    def kfd(self) -> Mapping[str, Mapping[str, str]]:
        """The GPUs of AMD's kernel driver: topology node -> its properties. Nodes without SIMDs are CPUs."""
        found = {
            name: _properties(self.readings.file(f"{_KFD}/{name}/properties") or "")
            for name in self.readings.names_in(_KFD)
        }
        return {name: each for name, each in found.items() if each.get("simd_count", "0").strip("0")}

    @cached_property
    def kernel_version(self) -> str | None:
        """The version of the NVIDIA kernel module that is loaded."""
        text = self.readings.file("/proc/driver/nvidia/version")
        found = _VERSION.search(text or "")
        return found[1] if found else self.readings.file("/sys/module/nvidia/version")

    @cached_property
    def count(self) -> int | None:
        """How many GPUs work on the node, the run's and others; None: not known."""
        if self.smi.rows:
            return len(self.smi.rows)
        if self.kfd:
            return len(self.kfd)
        nothing = not self.nvidia_functions and not self.amd_functions
        return 0 if self.pci and nothing else None

    @cached_property
    def usable(self) -> int | None:
        """How many of them the run may use; None: not known."""
        return len(self.smi.gpus) if self.smi.rows else self.count

    @cached_property
    def why_no_rows(self) -> str:
        """Why nvidia-smi has no row for any GPU, for checks that need one."""
        if self.pci and not self.nvidia_functions:
            return "no NVIDIA GPU on this node"
        if self.smi.hung:
            return "nvidia-smi gave no answer"
        return "nvidia-smi lists no GPU"

    @cached_property
    def present(self) -> bool:
        """True: there is some sign of a GPU."""
        return bool(self.smi.rows or self.kfd or self.nvidia_functions or self.amd_functions)

    def _functions(self, vendor: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
        found = (
            name for name, (maker, kind) in self.pci.items() if maker == vendor and kind.startswith(kinds)
        )
        return tuple(found)


def _properties(text: str) -> Mapping[str, str]:
    """`simd_count 304` lines."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs if name}
