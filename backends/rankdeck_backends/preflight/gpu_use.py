"""May the run have the GPUs: MIG, other programs on them, compute mode; and AMD's permissions."""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, odd_ones, side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool

BUSY_MIB = 1024
"""Memory in use from which a GPU counts as busy: the driver itself takes a few MiB, in MIG mode some 90."""


def mig(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.mig."""
    smi = node.gpus.smi
    sliced = [gpu for gpu in smi.gpus if gpu.text("mig.mode.current") == "Enabled"]
    evidence = [gpu.evidence("mig.mode.current") for gpu in sliced]
    evidence += [Evidence.of("nvidia-smi -L", line) for line in smi.mig_instances]
    if sliced or smi.mig_instances:
        which = f"GPU {', '.join(gpu.index for gpu in sliced)}" if sliced else "a GPU"
        message = f"{which} is cut into MIG instances ({len(smi.mig_instances)} listed)"
        if "MIG-" in pool.asked.env.get("CUDA_VISIBLE_DEVICES", ""):
            return warned(
                f"{message}, as CUDA_VISIBLE_DEVICES asks: NCCL has no peer-to-peer there", *evidence
            )
        return failed(message, *evidence)
    if not smi.gpus:
        return skipped(node.gpus.why_no_rows)
    return passed("no GPU is cut into MIG instances", smi.gpus[0].evidence("mig.mode.current"))


def busy(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.busy."""
    smi = node.gpus.smi
    if not smi.gpus:
        return skipped(node.gpus.why_no_rows)
    modes = [(gpu, gpu.text("compute_mode") or "") for gpu in smi.gpus]
    closed = [gpu for gpu, mode in modes if mode == "Prohibited"]
    if closed:
        return failed(
            f"GPU {', '.join(gpu.index for gpu in closed)} takes no programs: its compute mode is Prohibited",
            *(gpu.evidence("compute_mode") for gpu in closed),
            fix="nvidia-smi -c DEFAULT as root",
        )
    processes = smi.processes or ()
    index_of = {gpu.text("uuid"): gpu.index for gpu in smi.gpus}
    held = {index_of.get(each.gpu, each.gpu) for each in processes}
    told_of = [
        f"GPU {index_of.get(each.gpu, each.gpu)} is used by process {each.pid} ({_name(each.name)}), "
        f"{each.memory}"
        for each in processes
    ]
    evidence = [
        Evidence.of("nvidia-smi --query-compute-apps", f"{each.gpu}, {each.pid}, {each.name}, {each.memory}")
        for each in processes
    ]
    for gpu in smi.gpus:
        used = gpu.number("memory.used") or 0
        if used > BUSY_MIB and gpu.index not in held:
            told_of.append(f"GPU {gpu.index} has {used:.0f} MiB in use")
            evidence.append(gpu.evidence("memory.used"))
    for gpu, mode in modes:
        if mode == "Exclusive_Process":
            told_of.append(f"GPU {gpu.index} takes one process only")
            evidence.append(gpu.evidence("compute_mode"))
    if told_of:
        return warned("; ".join(told_of), *evidence)
    return passed("no other program holds a GPU", smi.gpus[0].evidence("memory.used"))


def _name(name: str) -> str:
    return "of another user or container" if name.strip("[]") == "Not Found" else name


def amd(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.amd on one node."""
    gpus = node.gpus
    opened = node.readings.text("kfd_open")
    if not gpus.amd_functions and not gpus.kfd:
        return skipped("no AMD GPU on this node")
    evidence = Evidence.of("open(/dev/kfd)", opened)
    if opened in ("EACCES", "EPERM"):
        return failed(f"this user may not open /dev/kfd ({opened})", evidence)
    if opened == "ENOENT" or (gpus.pci and gpus.amd_functions and not gpus.kfd and opened is not None):
        return failed(
            f"{len(gpus.amd_functions)} AMD GPUs on the PCI bus, but the driver amdgpu offers none",
            evidence,
            Evidence.of("/sys/class/kfd/kfd/topology/nodes", ", ".join(gpus.kfd) or "no GPU"),
            fix="load amdgpu; in a container pass /dev/kfd and /dev/dri",
        )
    if opened is None:
        return skipped("whether this user may open /dev/kfd is not known")
    if opened != "ok":
        return failed(f"/dev/kfd cannot be opened: {opened}", evidence)
    return passed(f"{len(gpus.kfd)} AMD GPUs, and this user may use them", evidence)


def same_amd_driver(pool: ProbedPool) -> Outcome:
    """gpu.amd over the pool."""
    path = "/sys/module/amdgpu/version"
    versions = {
        node.name: node.readings.file(path) or node.readings.file("/proc/sys/kernel/osrelease") or "?"
        for node in pool
        if node.gpus.kfd
    }
    if len(versions) < 2:
        return skipped("fewer than two nodes with AMD GPUs")
    if odd := odd_ones(versions):
        return warned(
            f"different amdgpu drivers: {told(versions)}",
            *side_by_side(path, versions),
            fix="update the nodes to one driver",
            nodes=odd,
        )
    return passed(f"all nodes have amdgpu {groups(versions)[0][0]}", *side_by_side(path, versions)[:1])


CHECKS = (
    Check(
        id="gpu.mig",
        group=Group.GPU,
        title="whole GPUs",
        reads="nvidia-smi mig.mode.current, nvidia-smi -L",
        rule="fail: MIG is on; warn: it is, and the profile's CUDA_VISIBLE_DEVICES names MIG instances; "
        "pass: [N/A] is no MIG",
        symptom="invalid device ordinal, or NCCL errors: it has no peer-to-peer between instances",
        fix="nvidia-smi -mig 0 as root, or use other nodes",
        source="NVIDIA MIG User Guide; NVIDIA/nccl issue 1716, pytorch/pytorch issue 130181",
        node=mig,
    ),
    Check(
        id="gpu.busy",
        group=Group.GPU,
        title="nobody else on the GPUs",
        reads="nvidia-smi --query-compute-apps, memory.used, compute_mode",
        rule=f"warn: a process holds a GPU, more than {BUSY_MIB} MiB are in use, or compute mode "
        "Exclusive_Process; fail: compute mode Prohibited",
        symptom="CUDA out of memory at start",
        fix="ask who runs there; rankdeck ends no process that is not its own",
        source="nvidia-smi manual; facebookresearch/gcm",
        node=busy,
    ),
    Check(
        id="gpu.amd",
        group=Group.GPU,
        title="AMD GPUs may be used",
        reads="open(/dev/kfd), /sys/class/kfd/kfd/topology/nodes/*/properties, /sys/module/amdgpu/version",
        rule="fail: /dev/kfd is not there or may not be opened, or the driver offers no GPU; warn: other "
        "driver versions on other nodes (distributions' own drivers have the kernel's)",
        symptom="HSA_STATUS_ERROR_OUT_OF_RESOURCES, or no devices at all",
        fix="add the user to the groups render and video, then log in anew",
        source="ROCm installation guide, permissions; linux amdkfd topology",
        node=amd,
        pool=same_amd_driver,
    ),
)
