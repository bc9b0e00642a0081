"""GPUDirect RDMA: whether cards get at GPU memory, and the way between them."""

from __future__ import annotations

from collections import Counter

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.gpudirect import GpuDirect, gpudirect
from rankdeck_profiles.fabric.inherited import inherited
from rankdeck_profiles.fabric.topology import NEAR

_NOT_HERE = "no GPU beside an RDMA device, or the driver tells nothing"
_VIRTUAL_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"
_GROUPS = "/sys/kernel/iommu_groups"
_CMDLINE = "/proc/cmdline"


def path(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gdr.path: there is a way."""
    direct = gpudirect(node.fabric)
    if direct is None:
        return skipped(_NOT_HERE)
    if direct.works:
        return passed(f"GPUDirect RDMA by {' and '.join(direct.ways)}", *_evidence(direct))
    if direct.broken:
        return failed(
            "the only way is peer memory, which is loaded and not registered; NCCL would believe in it",
            *_evidence(direct),
        )
    return warned("no way for cards into GPU memory: data goes through the host's", *_evidence(direct))


def registered(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gdr.registered: peer memory that is loaded is in use by ib_core."""
    direct = gpudirect(node.fabric)
    if direct is None:
        return skipped(_NOT_HERE)
    if not direct.trusted:
        return skipped("nvidia_peermem is not loaded")
    if not direct.broken:
        return passed("nvidia_peermem is registered with ib_core", *_evidence(direct))
    text = "nvidia_peermem is loaded, and not registered with ib_core"
    if "dma-buf" in direct.ways:
        return warned(f"{text}; dma-buf works", *_evidence(direct))
    return failed(text, *_evidence(direct))


def uniform(pool: ProbedPool) -> Outcome:
    """gdr.uniform: the same on every node."""
    found = {
        node.name: "works" if direct.works else "does not work"
        for node in pool
        if (direct := gpudirect(node.fabric)) is not None
    }
    if len(found) < 2:
        return skipped("fewer than two nodes have GPUs beside RDMA devices")
    if len(set(found.values())) == 1:
        return passed(f"GPUDirect RDMA {next(iter(found.values()))} on every node")
    lacking = tuple(name for name, text in found.items() if text != "works")
    return failed(f"GPUDirect RDMA {told(found)}", *side_by_side("gdr.path", found), nodes=lacking)


def iommu(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gdr.acs-iommu: no address translation between cards and GPUs."""
    if not (node.fabric.has_gpus and node.fabric.devices):
        return skipped("no GPU beside an RDMA device")
    if node.fabric.virtual_machine:
        return skipped("a virtual machine: its host decides")
    if node.fabric.virtual_machine is None and node.fabric.in_container:
        return skipped("a container that does not tell what machine it is on")
    cmdline = node.readings.file(_CMDLINE)
    types = Counter(text for name, text in node.readings.under(_GROUPS).items() if name.endswith("/type"))
    words = (cmdline or "").split()
    evidence = (
        Evidence.of(_CMDLINE, cmdline),
        Evidence.of(
            f"{_GROUPS}/*/type", ", ".join(f"{number} {kind}" for kind, number in types.items()) or None
        ),
    )
    translated = sum(number for kind, number in types.items() if kind.startswith("DMA"))
    if translated:
        return warned(
            f"the IOMMU translates for {translated} of {types.total()} groups of devices", *evidence
        )
    if types:
        return passed("the IOMMU passes addresses through (identity)", *evidence)
    if cmdline is None:
        return skipped("neither the kernel's command line nor IOMMU groups can be read")
    if any(word in ("intel_iommu=on", "amd_iommu=on") for word in words) and "iommu=pt" not in words:
        return warned("the IOMMU is on, without iommu=pt", *evidence)
    return passed("no IOMMU groups: nothing is translated", *evidence)


def affinity(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gdr.affinity: each GPU has a card near it."""
    topology = node.fabric.topology
    if topology is None or not any(topology.nics.values()):
        return skipped("nvidia-smi shows no network card beside the GPUs")
    far = {
        gpu: best for gpu in topology.nics if (best := topology.best(gpu)) is not None and best[1] not in NEAR
    }
    if not far:
        return passed(f"each of {len(topology.nics)} GPUs has a card behind PCI bridges only")
    listed = ", ".join(f"{gpu} {near}" for gpu, (_, near) in list(far.items())[:8])
    evidence = Evidence.of("nvidia-smi topo -m", listed)
    if node.fabric.virtual_machine:
        named = inherited(node.readings, pool.asked.env).value("NCCL_TOPO_FILE") or _VIRTUAL_TOPOLOGY
        if named in node.readings.files:
            return passed(f"a virtual machine, with the real topology in {named}", evidence)
        return warned(
            f"a virtual machine that hides how near cards and GPUs are ({listed}), and no topology file",
            evidence,
            fix="set NCCL_TOPO_FILE to the file that the cloud's image brings",
        )
    return warned(f"no card near: {listed}", evidence)


def _evidence(direct: GpuDirect) -> tuple[Evidence, ...]:
    return tuple(Evidence.of(source, value) for source, value in direct.evidence)


CHECKS = (
    Check(
        id="gdr.path",
        group=Group.GPUDIRECT,
        title="cards reach GPU memory",
        reads=(
            "/sys/kernel/mm/memory_peers/*/version; ib_core's users in /proc/modules; "
            "/proc/driver/nvidia/version; the kernel's release"
        ),
        rule=(
            "pass: peer memory is registered, or dma-buf works (open module, driver 515, kernel 5.12); "
            "warn: neither; fail: NCCL would believe in a peer memory that is not registered"
        ),
        symptom="`GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`, and lower bandwidth",
        fix="modprobe nvidia-peermem (as root), or install NVIDIA's open kernel module",
        source="NCCL src/transport/net_ib/gdr.cc",
        node=path,
        explained_by=("gdr.registered",),
    ),
    Check(
        id="gdr.registered",
        group=Group.GPUDIRECT,
        title="peer memory is registered",
        reads="/sys/module/nvidia_peermem/version; ib_core's users in /proc/modules",
        rule="fail: loaded and not registered, and no dma-buf; warn: the same with dma-buf",
        symptom="`Call to ibv_reg_mr failed with error Bad address`, or `Invalid argument`",
        fix="install the OFED before the NVIDIA driver; modprobe -r nvidia_peermem, and modprobe it again",
        source="nccl issues 1537, 1939; Mellanox/nv_peer_memory issues 84, 116",
        node=registered,
    ),
    Check(
        id="gdr.uniform",
        group=Group.GPUDIRECT,
        title="GPUDirect alike on every node",
        reads="the results of gdr.path",
        rule="fail: it works on some nodes only",
        symptom="a hang in the first all-reduce, without an error",
        fix="make it the same on all nodes; launched all the same, NCCL_NET_GDR_LEVEL=LOC turns it off",
        source="nccl issues 897, 1343",
        pool=uniform,
        explained_by=("gdr.registered", "gdr.path"),
    ),
    Check(
        id="gdr.acs-iommu",
        group=Group.GPUDIRECT,
        title="no translation between cards and GPUs",
        reads=f"{_CMDLINE}; {_GROUPS}/*/type",
        rule=(
            "warn: on bare metal the IOMMU translates (DMA, DMA-FQ); skip: a virtual machine. PCI ACS is for "
            "root to read, and not looked at"
        ),
        symptom="a hang or corrupted data; completion status 4 (local protection)",
        fix="boot with iommu=pt, and turn PCI ACS off",
        source="NCCL troubleshooting guide; nccl issues 214, 304, 523",
        node=iommu,
    ),
    Check(
        id="gdr.affinity",
        group=Group.GPUDIRECT,
        title="a card near each GPU",
        reads="nvidia-smi topo -m; NCCL_TOPO_FILE",
        rule=(
            "pass: PIX or PXB for each GPU; warn: farther on bare metal, or a virtual machine without a "
            "topology file"
        ),
        symptom="two to four times slower",
        fix="put cards and GPUs behind the same PCI switches",
        source="nvidia-smi's legend; Azure/azhpc-images",
        node=affinity,
    ),
)
