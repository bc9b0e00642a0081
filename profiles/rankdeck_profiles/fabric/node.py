"""All that a node's readings say about its network, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rankdeck_profiles.fabric import modules as kernel
from rankdeck_profiles.fabric.devices import Device, Kind, Port, devices
from rankdeck_profiles.fabric.inherited import environment
from rankdeck_profiles.fabric.interfaces import Interface, interfaces
from rankdeck_profiles.fabric.topology import Topology, topology
from rankdeck_profiles.readings import Readings
from rankdeck_profiles.versions import Version, version

VERBS = "/sys/class/infiniband_verbs"
AZURE_CHASSIS = "7783-7084-3265-9085-8269-3286-77"
"""The chassis asset tag of every virtual machine of Azure (cloud-init, sources/azure)."""

_VIRTUAL_MACHINES = (
    "Virtual Machine",
    "KVM",
    "Standard PC",
    "VMware",
    "HVM domU",
    "Google Compute Engine",
    "BHYVE",
)
"""How products of hypervisors name themselves (systemd, src/basic/virt.c)."""
_VENDORS = (
    "QEMU",
    "Amazon EC2",
    "Google",
    "VMware",
    "Xen",
    "OpenStack",
    "Microsoft Corporation",
    "Alibaba Cloud",
)
_GCP_SCRIPTS = (
    "/usr/local/gib/scripts/set_nccl_env.sh",
    "/usr/local/nvidia/lib64/nccl-env-profile.sh",
    "/var/lib/tcpxo/lib64/nccl-env-profile.sh",
)


@dataclass(frozen=True)
class NodeFabric:
    """One node's network."""

    readings: Readings

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Its RDMA devices in natural order."""
        return devices(self.readings)

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """All their ports."""
        return tuple(port for device in self.devices for port in device.ports)

    @cached_property
    def by_name(self) -> dict[str, Device]:
        """The devices by name."""
        return {device.name: device for device in self.devices}

    @cached_property
    def interfaces(self) -> tuple[Interface, ...]:
        """Its network interfaces in the kernel's order."""
        return interfaces(self.readings)

    @cached_property
    def modules(self) -> dict[str, kernel.Module] | None:
        """The loaded kernel modules; None: not known."""
        return kernel.modules(self.readings)

    @cached_property
    def pci(self) -> tuple[kernel.PciFunction, ...]:
        """Its network and GPU functions on the PCI bus."""
        return kernel.pci_functions(self.readings)

    @cached_property
    def user_stack(self) -> kernel.UserStack | None:
        """The OFED that is installed."""
        return kernel.user_stack(self.readings)

    @cached_property
    def topology(self) -> Topology | None:
        """How near GPUs and cards are."""
        return topology(self.readings)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What the login left in the environment."""
        return environment(self.readings) or {}

    @cached_property
    def uverbs(self) -> dict[str, str]:
        """RDMA device -> its `uverbsN`: the numbers of the two do not follow each other."""
        found = {}
        for name in self.readings.names_in(VERBS):
            device = self.readings.file(f"{VERBS}/{name}/ibdev")
            if device:
                found[device] = name
        return found

    def opened(self, device: str) -> str | None:
        """What opening a device's uverbs gave: `ok`, or an error's name; None: not tried."""
        answers = self.readings.mapping("uverbs_open")
        if answers is None:
            return None
        name = self.uverbs.get(device)
        if name is None:
            return "ENOENT"
        answer = answers.get(name)
        return None if answer is None else str(answer)

    def openable(self, device: str) -> bool:
        """Whether a rank can use a device, as far as known."""
        return self.opened(device) in ("ok", None)

    @cached_property
    def has_gpus(self) -> bool:
        """Whether there is a GPU on the bus."""
        return any(function.is_gpu for function in self.pci)

    @cached_property
    def has_rdma_hardware(self) -> bool:
        """Whether the bus has an RDMA card, or a driver shows one."""
        return bool(self.devices) or any(function.is_rdma for function in self.pci)

    @cached_property
    def in_container(self) -> bool:
        """Whether the probe ran in a container."""
        files = self.readings.files
        return bool(
            self.readings.flag("in_container") or "/.dockerenv" in files or "/run/.containerenv" in files
        )

    @cached_property
    def virtual_machine(self) -> bool | None:
        """Whether the node is a virtual machine; None: it does not say what it is."""
        product = self.readings.file("/sys/class/dmi/id/product_name")
        vendor = self.readings.file("/sys/class/dmi/id/sys_vendor")
        if product is None and vendor is None:
            return None
        if (product or "").endswith(".metal"):
            return False
        return (product or "").startswith(_VIRTUAL_MACHINES) or (
            (vendor or "").startswith(_VENDORS) and vendor != "Microsoft Corporation"
        )

    @cached_property
    def azure(self) -> bool:
        """Whether it is a virtual machine of Azure."""
        return self.readings.file("/sys/class/dmi/id/chassis_asset_tag") == AZURE_CHASSIS

    @cached_property
    def azure_size(self) -> str | None:
        """The size that Azure's metadata service names, in lower case: `standard_nd96asr_v4`."""
        for found in self.readings.ran("curl"):
            if found.rc == 0 and any("metadata/instance/compute/vmSize" in word for word in found.argv):
                return found.stdout.strip().lower() or None
        return None

    @cached_property
    def gcp_script(self) -> str | None:
        """Google's own script that sets NCCL's variables for its network, where there is one."""
        return next((path for path in _GCP_SCRIPTS if path in self.readings.files), None)

    @cached_property
    def nccl_version(self) -> Version | None:
        """The NCCL that the profile's torch brings, else the first that would be loaded; None: not known."""
        told = self.readings.text("torch_nccl")
        libraries = self.readings.texts("nccl_libs")
        if told is None and libraries:
            told = libraries[0].rpartition(" ")[2]  # `/usr/lib/libnccl.so.2 2.18.5`
        return version(told)

    @cached_property
    def kernel_version(self) -> Version | None:
        """The kernel's."""
        return version(self.readings.file("/proc/sys/kernel/osrelease"))

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """What its usable ports speak."""
        return frozenset(port.kind for port in self.usable)

    @cached_property
    def usable(self) -> tuple[Port, ...]:
        """The ports that ranks could send data over: active, of a device with a GUID that may be opened."""
        return tuple(
            port
            for device in self.devices
            if not device.null_guid and self.openable(device.name)
            for port in device.ports
            if port.active and port.kind in (Kind.INFINIBAND, Kind.ROCE, Kind.EFA)
        )

    @cached_property
    def taken_by_nccl(self) -> tuple[Port, ...]:
        """The ports that NCCL takes by itself: each that is ACTIVE and InfiniBand or Ethernet, iWARP too.

        NCCL src/transport/net_ib/init.cc.
        """
        return tuple(
            port
            for device in self.devices
            if self.openable(device.name)
            for port in device.ports
            if port.active and port.link_layer in ("InfiniBand", "Ethernet")
        )
