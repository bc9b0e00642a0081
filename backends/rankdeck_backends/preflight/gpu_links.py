"""How the GPUs of a node, and of an NVLink rack, are joined: Fabric Manager, NVLink, IMEX."""

from __future__ import annotations

import re

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, odd_ones, side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.nvidia_smi import Gpu
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

_SOLDERED = re.compile(r"SXM[4-9]|HBM3e?$|\b(?:H20|H200|H800|B200|B300|GB200|GB300)$")
"""Models whose NVLinks are part of the board, all alike (H100 SXM: `NVIDIA H100 80GB HBM3`); others
have bridges over some pairs, or none, and those before SXM4 have uneven links by design."""

_MANAGER = ("systemctl", "is-active", "nvidia-fabricmanager")
_RACK = re.compile(r"\bGB[23]00")


def fabric(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.fabric."""
    known = [(gpu, state) for gpu in node.gpus.smi.gpus if (state := gpu.text("fabric.state"))]
    mismatch = _other_manager(node)
    if mismatch is not None:
        return mismatch
    if not known:
        return _manager_alone(node)
    unfinished = [(gpu, state) for gpu, state in known if state != "Completed"]
    if unfinished:
        return failed(
            "; ".join(
                f"GPU {gpu.index} has not joined the NVLink fabric: {state}" for gpu, state in unfinished
            ),
            *(gpu.evidence("fabric.state") for gpu, _ in unfinished),
        )
    refused = [gpu for gpu, _ in known if (gpu.text("fabric.status") or "Success") != "Success"]
    if refused:
        return failed(
            "; ".join(
                f"GPU {gpu.index} was refused by the NVLink fabric: {gpu.text('fabric.status')}"
                for gpu in refused
            ),
            *(gpu.evidence("fabric.status") for gpu in refused),
        )
    return passed(
        f"all {len(known)} GPUs have joined the NVLink fabric", known[0][0].evidence("fabric.state")
    )


def _other_manager(node: ProbedNode) -> Outcome | None:
    """A Fabric Manager of another version than the driver refuses to start the fabric."""
    asked = next(node.readings.ran("nv-fabricmanager"), None)
    version = re.search(r"[0-9]+(?:\.[0-9]+)+", asked.stdout) if asked else None
    kernel = node.gpus.kernel_version
    if asked is None or version is None or kernel is None or version[0] == kernel:
        return None
    if not node.gpus.has_nvswitch:
        return None
    return failed(
        f"the Fabric Manager is {version[0]}, the driver {kernel}: they must be the same version",
        Evidence.of(asked.line, asked.stdout),
        Evidence.of("/proc/driver/nvidia/version", kernel),
    )


def _manager_alone(node: ProbedNode) -> Outcome:
    """The driver does not tell of the fabric: what the service says."""
    asked = node.readings.command(*_MANAGER)
    state = asked.stdout.strip() if asked else ""
    if not node.gpus.has_nvswitch and state != "active":
        some = bool(node.gpus.smi.gpus)
        return skipped(
            "these GPUs have no NVLink fabric, or do not tell of it" if some else node.gpus.why_no_rows
        )
    if state == "active":
        return passed("the Fabric Manager runs", Evidence.of(" ".join(_MANAGER), state))
    if state in ("inactive", "failed"):
        return failed(
            f"there is an NVSwitch, but the Fabric Manager is {state}", Evidence.of(" ".join(_MANAGER), state)
        )
    return skipped("there is an NVSwitch, but whether the Fabric Manager runs is not known")


def nvlink(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.nvlink."""
    smi = node.gpus.smi
    soldered = [gpu for gpu in smi.gpus if _SOLDERED.search(gpu.text("name") or "")]
    dead = _dead_links(node)
    if soldered and dead:
        return failed(
            "; ".join(f"GPU {index}: NVLink {', '.join(links)} inactive" for index, links in dead.items()),
            *(Evidence.of(f"nvidia-smi nvlink -s, GPU {index}", "<inactive>") for index in dead),
        )
    pairs = _between_gpus(node)
    if not soldered or not (pairs or smi.links):
        some = bool(smi.gpus)
        return skipped(
            "these GPUs have no NVLink of their own, or do not tell of it" if some else node.gpus.why_no_rows
        )
    kinds = groups(pairs)
    if len(kinds) > 1 or any(not cell.startswith("NV") for cell, _ in kinds):
        shown = ", ".join(f"{cell} ({len(names)} pairs)" for cell, names in kinds)
        return warned(
            f"the GPUs are not all joined by the same NVLinks: {shown}",
            *(Evidence.of(f"nvidia-smi topo -m, {names[0]}", cell) for cell, names in kinds),
        )
    if not kinds:
        return passed("all NVLinks are active", Evidence.of("nvidia-smi nvlink -s", "none inactive"))
    return passed(
        f"all pairs of GPUs are joined by {kinds[0][0]}", Evidence.of("nvidia-smi topo -m", kinds[0][0])
    )


def _between_gpus(node: ProbedNode) -> dict[str, str]:
    """`GPU0-GPU1` -> `NV18`, each pair once."""
    links = node.fabric.topology.links if node.fabric.topology else {}
    unused = {f"GPU{gpu.index}" for gpu in node.gpus.smi.unused}
    order = [gpu for gpu in links if gpu not in unused]
    return {
        f"{one}-{other}": cell
        for place, one in enumerate(order)
        for other, cell in links[one].items()
        if other in order[place + 1 :]
    }


def _dead_links(node: ProbedNode) -> dict[str, list[str]]:
    found = {
        index: [link for link, speed in links.items() if "inactive" in speed.lower()]
        for index, links in (node.gpus.smi.links or {}).items()
    }
    return {index: links for index, links in found.items() if links}


def imex(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.imex on one node."""
    if not any(_in_rack(gpu) for gpu in node.gpus.smi.gpus):
        return skipped("no GPUs of an NVLink rack (GB200, GB300)")
    opened = node.readings.text("imex_channel")
    evidence = Evidence.of("open(/dev/nvidia-caps-imex-channels/channel0)", opened)
    if opened is None:
        return skipped("whether the IMEX channel can be opened is not known")
    if opened != "ok":
        what = "is not there" if opened == "ENOENT" else f"cannot be opened ({opened})"
        return failed(f"the IMEX channel {what}: memory cannot be shared over the rack's NVLink", evidence)
    return passed("the IMEX channel can be opened", evidence)


def _in_rack(gpu: Gpu) -> bool:
    return bool(_RACK.search(gpu.text("name") or ""))


def same_clique(pool: ProbedPool) -> Outcome:
    """gpu.imex over the pool."""
    cliques = {
        node.name: f"{gpu.text('fabric.clusterUuid')}, clique {gpu.text('fabric.cliqueId')}"
        for node in pool
        for gpu in node.gpus.smi.gpus[:1]
        if _in_rack(gpu) and gpu.text("fabric.clusterUuid")
    }
    if len(cliques) < 2:
        return skipped("fewer than two nodes of an NVLink rack")
    if odd := odd_ones(cliques):
        return warned(
            f"the nodes are of different NVLink domains: {told(cliques)}",
            *side_by_side("fabric.clusterUuid, fabric.cliqueId", cliques),
            fix="choose nodes of one rack; between racks NCCL takes the network",
            nodes=odd,
        )
    return passed("all nodes are of one NVLink domain", *side_by_side("fabric.clusterUuid", cliques)[:1])


CHECKS = (
    Check(
        id="gpu.fabric",
        group=Group.GPU,
        title="NVLink fabric ready",
        reads="nvidia-smi fabric.state and fabric.status, systemctl is-active nvidia-fabricmanager, "
        "nv-fabricmanager --version, PCI class 0x0680 (NVSwitch)",
        rule="fail: a GPU has not joined (Completed, Success), the Fabric Manager is of another version than "
        "the driver or does not run beside an NVSwitch; skip: no fabric, or an old driver that does not tell",
        symptom="CUDA error 802: system not yet initialized",
        fix="install the Fabric Manager of the driver's version and start nvidia-fabricmanager",
        source="NVIDIA Fabric Manager User Guide; pytorch/pytorch issue 35710, NVIDIA/nccl-tests issue 264",
        node=fabric,
        explained_by=("gpu.driver", "gpu.lost"),
    ),
    Check(
        id="gpu.nvlink",
        group=Group.GPU,
        title="NVLinks active and even",
        reads="nvidia-smi nvlink -s, nvidia-smi topo -m",
        rule="fail: an inactive link on a GPU whose links are part of the board (SXM); warn: pairs of such "
        "GPUs are joined by different links, or by none",
        symptom="collectives within the node go over PCIe or shared memory and are several times slower",
        fix="reset the GPUs or reboot the node; see gpu.fabric",
        source="nvidia-smi nvlink and topo manuals",
        node=nvlink,
        explained_by=("gpu.fabric", "gpu.lost"),
    ),
    Check(
        id="gpu.imex",
        group=Group.GPU,
        title="one NVLink domain (IMEX)",
        reads="open(/dev/nvidia-caps-imex-channels/channel0), nvidia-smi fabric.clusterUuid and "
        "fabric.cliqueId",
        rule="fail: the channel of a GB200 or GB300 node is missing or may not be opened; warn: nodes of "
        "different domains",
        symptom="NCCL warns about IMEX and leaves the rack's NVLink unused",
        fix="start nvidia-imex on all nodes of the rack (nvidia-imex-ctl -N shows who takes part)",
        source="NVIDIA IMEX Service guide; NVIDIA/nccl MNNVL",
        node=imex,
        pool=same_clique,
    ),
)
