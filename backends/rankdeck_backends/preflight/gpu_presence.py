"""Are the GPUs there: driver, number, lost ones, and whether all nodes have the same."""

from __future__ import annotations

import re

from rankdeck_backends.preflight.accelerators import Accelerators
from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, odd_ones, side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.readings import CommandReading

MEMORY_TOLERANCE = 0.02
"""Share by which the memory of one model may differ: drivers count reserved memory in or out (40536 and 40960
MiB of the same A100)."""

_LIBRARY = re.compile(r"NVML library version:\s*([0-9.]+)")
_NO_DEVICES = 6
"""nvidia-smi's status for `No devices were found`."""


def driver(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.driver on one node."""
    gpus = node.gpus
    if gpus.smi.hung and node.hurried is not None:
        return warned(
            f"nvidia-smi gave no answer within the {node.hurried:g} s that a launch waits: what it has "
            "to say is not known",
            Evidence.of(gpus.smi.hung.line, "no answer"),
            fix="see whether `rankdeck check`, which waits longer, has an answer: if not, a GPU or driver "
            "hangs; if so, persistence mode (nvidia-smi -pm 1, as root) makes it quick",
        )
    if gpus.smi.hung:
        return failed(
            "nvidia-smi gave no answer in its time: a GPU or the driver hangs",
            Evidence.of(gpus.smi.hung.line, "no answer"),
            fix="reboot the node; more calls of nvidia-smi would hang, too",
        )
    if gpus.smi.refused:
        return _refused(gpus, gpus.smi.refused)
    if gpus.smi.rows:
        gpu = gpus.smi.rows[0]
        version = gpu.text("driver_version") or gpus.kernel_version or "of unknown version"
        return passed(f"NVIDIA driver {version}", gpu.evidence("driver_version"))
    if not gpus.nvidia_functions:
        return skipped(gpus.why_no_rows)
    return _without_tool(node, pool)


def _refused(gpus: Accelerators, query: CommandReading) -> Outcome:
    said = (query.stdout.strip() or query.stderr.strip()).splitlines()
    evidence = [Evidence.of(f"{query.line[:60]}..., status {query.rc}", "\n".join(said))]
    if gpus.kernel_version:
        evidence.append(Evidence.of("/proc/driver/nvidia/version", gpus.kernel_version))
    if gpus.pci and not gpus.nvidia_functions:
        return skipped(
            "nvidia-smi is installed, but there is no NVIDIA GPU on this node's PCI bus", *evidence
        )
    first = said[0] if said else f"status {query.rc}"
    library = _LIBRARY.search(query.stdout + query.stderr)
    if library and gpus.kernel_version:
        return failed(
            f"the kernel has NVIDIA driver {gpus.kernel_version}, the programs have {library[1]}: they must "
            "be the same version",
            *evidence,
        )
    if query.rc == _NO_DEVICES:
        where = f"{len(gpus.nvidia_functions)} on the PCI bus" if gpus.nvidia_functions else "PCI not read"
        return failed(f"the driver finds no GPU ({where})", *evidence, fix="see dmesg; drain the node")
    return failed(f"nvidia-smi cannot talk to the driver: {first}", *evidence, fix="load the nvidia module")


def _without_tool(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """There are NVIDIA GPUs, but no answer of nvidia-smi."""
    functions = node.gpus.nvidia_functions
    modules = node.readings.file("/proc/modules")
    evidence = Evidence.of("/sys/bus/pci/devices/*/class", ", ".join(functions))
    if node.gpus.kernel_version:
        return skipped(
            f"driver {node.gpus.kernel_version} is loaded; nvidia-smi is not installed or was not asked",
            evidence,
        )
    if modules is None or re.search(r"^nvidia ", modules, re.MULTILINE):
        return skipped("nvidia-smi is not installed or was not asked", evidence)
    # Laptops have 3D controllers, too, and do without NVIDIA's driver.
    compute = (
        any(node.gpus.pci[name][1].startswith("0x0302") for name in functions) and not pool.on_one_machine
    )
    message = f"{len(functions)} NVIDIA GPUs on the PCI bus, but the module nvidia is not loaded"
    judged = failed if compute else warned
    return judged(
        message, evidence, Evidence.of("/proc/modules", "no nvidia"), fix="install or load the NVIDIA driver"
    )


def same_driver(pool: ProbedPool) -> Outcome:
    """gpu.driver over the pool."""
    versions = {node.name: found for node in pool if (found := _driver_version(node))}
    if len(versions) < 2:
        return skipped("fewer than two nodes say which driver they have")
    evidence = side_by_side("driver version", versions)
    odd = odd_ones(versions)
    if odd:
        return warned(
            f"different NVIDIA drivers: {told(versions)}",
            *evidence,
            fix="update the nodes to one driver",
            nodes=odd,
        )
    return passed(f"all nodes have NVIDIA driver {groups(versions)[0][0]}", *evidence[:1])


def _driver_version(node: ProbedNode) -> str | None:
    of_tool = next((found for gpu in node.gpus.smi.rows if (found := gpu.text("driver_version"))), None)
    return of_tool or node.gpus.kernel_version


def count(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.count on one node: against its own PCI bus, and against the ranks asked for."""
    gpus = node.gpus
    found = gpus.count
    if found is None:
        return skipped("how many GPUs work here is not known")
    if not gpus.present:
        return skipped("no GPU on this node")
    functions = gpus.nvidia_functions if gpus.smi.rows else gpus.amd_functions
    evidence = (
        Evidence.of("nvidia-smi --query-gpu=index" if gpus.smi.rows else "kfd topology", found),
        Evidence.of("GPUs on the PCI bus", ", ".join(functions) or "not read"),
    )
    slots, usable = pool.asked.slots_on(node.name), gpus.usable or 0
    if slots is not None and slots > usable and pool.asked.needs_gpus:
        message = f"{slots} ranks asked for, {usable} GPUs there"
        message += f" for them (of {found}, as chosen)" if usable < found else ""
        if pool.on_one_machine:  # a program that finds too few may well use the CPUs
            return warned(message, *evidence, fix="ask for fewer ranks, unless they do without a GPU each")
        return failed(
            message, *evidence, fix='ask for fewer ranks a node, or say communication_backend = "gloo"'
        )
    if usable < found:
        return passed(f"{usable} of the node's {found} GPUs are used, as chosen", *evidence)
    if len(functions) > found and not node.readings.flag("in_container"):
        return failed(f"{found} of {len(functions)} GPUs of the PCI bus work", *evidence)
    return passed("1 GPU" if found == 1 else f"{found} GPUs", *evidence)


def same_count(pool: ProbedPool) -> Outcome:
    """gpu.count over the pool: where one rank a GPU is asked for, fewer GPUs are fewer ranks."""
    counts = {node.name: node.gpus.usable for node in pool if node.gpus.usable}
    if len(counts) < 2:
        return skipped("fewer than two nodes say how many GPUs they have")
    usual = groups(counts)[0][0]
    fewer = {name: found for name, found in counts.items() if usual is not None and found and found < usual}
    enough = all((pool.asked.slots_on(name) or usual or 0) <= (found or 0) for name, found in fewer.items())
    evidence = side_by_side("GPUs", counts)
    if not fewer:
        return passed(f"GPUs: {told(counts)}", *evidence)
    if enough:
        return passed(f"GPUs: {told(counts)}; each has one for every rank asked for", *evidence)
    return failed(
        f"fewer GPUs than the other nodes' {usual}: {told(fewer)}",
        *evidence,
        fix="drain the node, or say in the pool how many slots it has",
        nodes=fewer,
    )


def lost(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.lost."""
    gpus = node.gpus
    smi = gpus.smi
    reset = [gpu for gpu in smi.gpus if gpu.broken]
    advised = [gpu for gpu in smi.gpus if (gpu.text("gpu_recovery_action") or "None") != "None"]
    if not smi.gpus and not smi.lost:
        return skipped(gpus.why_no_rows)
    evidence = [Evidence.of("nvidia-smi", line) for line in smi.lost]
    evidence += [gpu.evidence(field) for gpu in reset for field in gpu.broken[:1]]
    evidence += [gpu.evidence("gpu_recovery_action") for gpu in advised]
    told_of = [f"the driver has lost one: {line}" for line in smi.lost]
    told_of += [f"GPU {gpu.index} says {gpu.cells[gpu.broken[0]].strip('[]')}" for gpu in reset]
    told_of += [
        f"GPU {gpu.index} needs {gpu.text('gpu_recovery_action')}" for gpu in advised if gpu not in reset
    ]
    if told_of:
        return failed("; ".join(told_of), *evidence)
    said = "the GPU answers" if len(smi.gpus) == 1 else f"all {len(smi.gpus)} GPUs answer"
    return passed(said, smi.gpus[0].evidence("gpu_recovery_action"))


def same_model(pool: ProbedPool) -> Outcome:
    """gpu.same-model."""
    rows = [(node.name, gpu) for node in pool for gpu in node.gpus.smi.gpus]
    if len({name for name, _ in rows}) < 2:
        return skipped("fewer than two nodes say which GPUs they have")
    models = _of_nodes([(name, gpu.text("name") or "?") for name, gpu in rows])
    if len({model for each in models.values() for model in each.split(" and ")}) > 1:
        return failed(
            f"different GPUs: {told(models)}", *side_by_side("GPU name", models), nodes=odd_ones(models)
        )
    memory = [size for _, gpu in rows if (size := gpu.number("memory.total"))]
    if memory and min(memory) < (1 - MEMORY_TOLERANCE) * max(memory):
        sizes = _of_nodes([(name, gpu.text("memory.total") or "?") for name, gpu in rows])
        return failed(
            f"the same GPU model with different memory: {told(sizes)}",
            *side_by_side("memory.total", sizes),
            nodes=odd_ones(sizes),
        )
    firmware = _of_nodes([(name, text) for name, gpu in rows if (text := gpu.text("vbios_version"))])
    if odd := odd_ones(firmware):
        return warned(
            f"different firmware (VBIOS) on the same GPU model: {told(firmware)}",
            *side_by_side("vbios_version", firmware),
            fix="update the firmware of the nodes that differ",
            nodes=odd,
        )
    return passed(f"all GPUs are {groups(models)[0][0]}", *side_by_side("GPU name", models)[:1])


def _of_nodes(cells: list[tuple[str, str]]) -> dict[str, str]:
    """Node -> its distinct values, joined."""
    found: dict[str, set[str]] = {}
    for name, cell in cells:
        found.setdefault(name, set()).add(cell)
    return {name: " and ".join(sorted(values)) for name, values in found.items()}


CHECKS = (
    Check(
        id="gpu.driver",
        group=Group.GPU,
        title="the GPU driver answers",
        reads="nvidia-smi --query-gpu (20 s at most, 5 before a launch), /proc/driver/nvidia/version",
        rule="fail: it ends with an error and no rows, or does not answer within 20 s; warn: it does not "
        "within the 5 s of a launch, or other versions on other nodes; skip: no NVIDIA GPU, or no nvidia-smi "
        "while the driver is loaded",
        symptom="Failed to initialize NVML: Driver/library version mismatch, or torch.cuda.is_available() is "
        "False",
        fix="reboot the node, so that module and libraries are of one version again; keep unattended "
        "upgrades from replacing the driver",
        source="nvidia-smi manual (status 18, 9, 6); microsoft/pai issue 5452",
        node=driver,
        pool=same_driver,
    ),
    Check(
        id="gpu.lost",
        group=Group.GPU,
        title="no GPU fell off the bus",
        reads="every cell of nvidia-smi --query-gpu, its lines about device handles, gpu_recovery_action",
        rule="fail: a cell says [GPU requires reset], [Unknown Error] or ERR!, a device has no handle, or "
        "the driver asks for a recovery; [N/A] is no fault",
        symptom="Xid 79 in the kernel log; NCCL hangs until its timeout",
        fix="reset the GPU or reboot the node; drain it if it happens again",
        source="NVML error codes; NVIDIA/dcgm-exporter issue 604",
        node=lost,
        explained_by=("gpu.driver",),
    ),
    Check(
        id="gpu.count",
        group=Group.GPU,
        title="as many GPUs as there should be",
        reads="rows of nvidia-smi, /sys/bus/pci/devices/*/{vendor,class}, /sys/class/kfd/kfd/topology/nodes",
        rule="fail: fewer than on the PCI bus (outside containers), than the ranks asked for, or than most "
        "nodes have",
        symptom="CUDA error: invalid device ordinal",
        fix="see gpu.lost; drain the node, or ask for fewer ranks on it",
        source="PCI class codes; torch.cuda.set_device",
        node=count,
        pool=same_count,
        explained_by=("gpu.driver", "gpu.lost"),
    ),
    Check(
        id="gpu.same-model",
        group=Group.GPU,
        title="the same GPUs on all nodes",
        reads="nvidia-smi name, memory.total, vbios_version",
        rule="fail: model or memory differs (2 % are allowed); warn: firmware differs",
        symptom="the fast ranks wait for the slow ones; out of memory on one node only",
        fix="make a pool of each kind",
        source="fields of nvidia-smi --help-query-gpu",
        pool=same_model,
    ),
)
