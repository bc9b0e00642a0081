"""Whether network cards may read and write GPU memory by themselves, and by which way.

NCCL src/transport/net_ib/gdr.cc and src/misc/ibvwrap.cc (2.30): peer memory, or dma-buf. Since 2.23 NCCL
believes in peer memory as soon as /sys/module/nvidia_peermem/version is there, registered or not (its issue
1939).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdeck_profiles.fabric.node import NodeFabric

DMABUF_KERNEL = (5, 12)
"""ib_core can import dma-buf since then (kernel, RDMA/umem)."""
DMABUF_DRIVER = 515
"""The driver of CUDA 11.7, the first whose open module exports dma-buf (CUDA release notes)."""

_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_AMD_PEERS = (
    "/sys/kernel/mm/memory_peers/amdkfd",
    "/sys/kernel/memory_peers/amdkfd",
    "/sys/memory_peers/amdkfd",
)
_NVIDIA_PEERS = ("/sys/kernel/mm/memory_peers/nv_mem", "/sys/kernel/mm/memory_peers/nv_mem_nc")
_NVIDIA_VERSION = "/proc/driver/nvidia/version"
_DRIVER = re.compile(r"\s([0-9]{1,6})\.[0-9]+")


@dataclass(frozen=True, slots=True)
class GpuDirect:
    """How a node's cards get at GPU memory."""

    ways: tuple[str, ...]
    """`peer memory`, `dma-buf`; empty: not at all, data goes through host memory."""
    trusted: bool
    """NCCL believes that peer memory works."""
    evidence: tuple[tuple[str, str | None], ...]
    """Paths and what was read there."""

    @property
    def works(self) -> bool:
        """Whether there is a way."""
        return bool(self.ways)

    @property
    def broken(self) -> bool:
        """NCCL believes in peer memory, which is loaded and not registered."""
        return self.trusted and "peer memory" not in self.ways


def gpudirect(node: NodeFabric) -> GpuDirect | None:
    """None: it does not apply (no GPU, no usable RDMA hardware) or cannot be known (no driver to ask)."""
    if not node.devices or not (node.has_gpus or _NVIDIA_VERSION in node.readings.files):
        return None
    if node.modules is None and _NVIDIA_VERSION not in node.readings.files:
        return None
    ways = []
    if _registered(node):
        ways.append("peer memory")
    if _dmabuf(node):
        ways.append("dma-buf")
    loaded = next((f"/sys/module/{name}/version" for name in _PEERMEM if _version(node, name)), None)
    core = (node.modules or {}).get("ib_core")
    return GpuDirect(
        tuple(ways),
        trusted=loaded is not None,
        evidence=(
            (loaded or "/sys/module/nvidia_peermem/version", node.readings.file(loaded) if loaded else None),
            ("/proc/modules", core.line if core else None),
            (_NVIDIA_VERSION, (node.readings.file(_NVIDIA_VERSION) or "").partition("\n")[0] or None),
            ("/proc/sys/kernel/osrelease", node.readings.file("/proc/sys/kernel/osrelease")),
        ),
    )


def _registered(node: NodeFabric) -> bool:
    """Peer memory works where it is registered: it stands among the peers, or among ib_core's users."""
    if any(node.readings.under(folder) for folder in (*_AMD_PEERS, *_NVIDIA_PEERS)):
        return True
    core = (node.modules or {}).get("ib_core")
    return core is not None and any(name in core.users for name in _PEERMEM)


def _dmabuf(node: NodeFabric) -> bool:
    """NVIDIA's open module, a kernel and a driver that are new enough; or amdgpu with such a kernel."""
    if node.kernel_version is None or node.kernel_version < DMABUF_KERNEL:
        return False
    driver = node.readings.file(_NVIDIA_VERSION)
    if driver is None:
        return "amdgpu" in (node.modules or {})
    found = _DRIVER.search(driver)
    return "Open Kernel Module" in driver and found is not None and int(found[1]) >= DMABUF_DRIVER


def _version(node: NodeFabric, module: str) -> str | None:
    return node.readings.file(f"/sys/module/{module}/version")
