"""Drivers and libraries of RDMA: loaded, of one stack, and open to this user."""

from __future__ import annotations

import re

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import odd_ones, side_by_side, told
from rankdeck_backends.preflight.fabric_ports import NO_RDMA
from rankdeck_backends.preflight.finding import Evidence, Outcome, Verdict, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.modules import MELLANOX, loaded, odd_answer
from rankdeck_profiles.fabric.node import VERBS

_MODULES = "/proc/modules"
_MAD = "/sys/class/infiniband_mad/abi_version"
_CORE_VERSION = "/sys/module/mlx5_core/version"
_HALVES = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")


def modules(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ofed.modules: what the cards need is loaded."""
    fabric = node.fabric
    if not fabric.has_rdma_hardware:
        return skipped(NO_RDMA)
    needed = _needed(node)
    there = {name: loaded(node.readings, name) for name in needed}
    if fabric.devices and not node.readings.names_in(VERBS):
        there["ib_uverbs"] = (
            False  # whether as a module or within the kernel, it makes an entry for each device
        )
    if all(found is None for found in there.values()):
        return skipped("the loaded modules cannot be read", Evidence.of(_MODULES, None))
    missing = [name for name, found in there.items() if found is False]
    if missing:
        text = f"not loaded: {', '.join(missing)}"
        evidence = tuple(
            Evidence.of(VERBS if name == "ib_uverbs" and fabric.devices else f"{_MODULES}, {name}", None)
            for name in missing
        )
        if not fabric.devices and not any(function.is_infiniband for function in fabric.pci):
            return warned(f"{text}; the card is taken as plain Ethernet", *evidence)
        return failed(text, *evidence, fix=f"modprobe {' '.join(missing)} (as root), or restart openibd")
    if node.readings.file(_MAD) is None and loaded(node.readings, "ib_umad") is False:
        return warned("ib_umad is not loaded: ibstat and perfquery do not work", Evidence.of(_MAD, None))
    return passed(f"loaded: {', '.join(needed)}")


def stack(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ofed.stack on one node: which one it is, and whether both halves are of it."""
    fabric = node.fabric
    if not _has_mellanox(node):
        return skipped("no Mellanox card" if fabric.has_rdma_hardware else NO_RDMA)
    user, core = fabric.user_stack, node.readings.file(_CORE_VERSION)
    if odd := odd_answer(node.readings):
        return skipped(
            f"which OFED it is can't be told: ofed_info -s {odd}",
            Evidence.of("ofed_info -s", odd),
            Evidence.of(_CORE_VERSION, core),
        )
    if user is None and fabric.in_container:
        return skipped("ofed_info is not in this container, which says nothing about the host")
    kernel = node.readings.file("/proc/sys/kernel/osrelease")
    if user is None:
        text = f"{core} in the kernel, no ofed_info" if core else f"the kernel's own drivers ({kernel})"
        return passed(text, Evidence.of(_CORE_VERSION, core))
    evidence = (Evidence.of("ofed_info -s", user.raw), Evidence.of(_CORE_VERSION, core))
    if core is None and not _out_of_tree(node, "mlx5_core"):
        return warned(f"{user.raw} is installed, and the loaded mlx5_core is the kernel's own", *evidence)
    return passed(user.raw, *evidence)


def stack_uniform(pool: ProbedPool) -> Outcome:
    """ofed.stack in the pool: the same version everywhere."""
    versions = {node.name: text for node in pool if (text := _stack_name(node)) is not None}
    if len(versions) < 2:
        return skipped("fewer than two nodes tell which RDMA stack they have")
    if len(set(versions.values())) > 1:
        # Builds of one release fit together, and the kernel's own drivers keep to its interface; two releases
        # of OFED bring two rdma-cores, and a UCX or HPC-X that was built for one of them.
        differ = len({_release(text) for text in versions.values() if "OFED" in text}) > 1
        return (failed if differ else warned)(
            f"the nodes have different RDMA stacks: {told(versions)}",
            *side_by_side("ofed_info -s", versions),
            nodes=odd_ones(versions),
        )
    return passed(f"{next(iter(versions.values()))} on every node")


def halves(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ofed.halves: all modules from one source, and of the version that is installed."""
    fabric = node.fabric
    if not _has_mellanox(node):
        return skipped("no Mellanox card" if fabric.has_rdma_hardware else NO_RDMA)
    if fabric.modules is None:
        return skipped("the loaded modules cannot be read", Evidence.of(_MODULES, None))
    there = [fabric.modules[name] for name in _HALVES if name in fabric.modules]
    ours = [module.name for module in there if module.out_of_tree]
    kernels = [module.name for module in there if not module.out_of_tree]
    if ours and kernels:
        return failed(
            f"modules of two stacks: {', '.join(ours)} from an OFED, {', '.join(kernels)} from the kernel",
            *(Evidence.of(_MODULES, module.line) for module in there),
        )
    user, core = fabric.user_stack, node.readings.file(_CORE_VERSION)
    if user is not None and core is not None and not user.version.startswith(core):
        return warned(
            f"the installed OFED is {user.version}, the loaded one {core}",
            Evidence.of("ofed_info -s", user.raw),
            Evidence.of(_CORE_VERSION, core),
            fix="restart openibd, or reboot, so that the installed one is loaded",
        )
    if not there:
        return skipped("no RDMA module is loaded")
    return passed("all modules from an OFED" if ours else "all modules from the kernel")


def uverbs(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ofed.uverbs: this user may open every device, in the way that ranks are started."""
    fabric = node.fabric
    if not fabric.devices:
        return skipped("no RDMA device" if fabric.has_rdma_hardware else NO_RDMA)
    answers = {device.name: fabric.opened(device.name) for device in fabric.devices}
    known = {name: answer for name, answer in answers.items() if answer is not None}
    if not known:
        return skipped("it was not tried to open the devices")
    refused = {name: answer for name, answer in known.items() if answer != "ok"}
    if not refused:
        return passed(f"{len(known)} devices can be opened")
    listed = ", ".join(f"{name} ({answer})" for name, answer in refused.items())
    return failed(
        f"cannot be opened: {listed}",
        *(
            Evidence.of(f"open /dev/infiniband/{fabric.uverbs.get(name, 'uverbs of ' + name)}", answer)
            for name, answer in refused.items()
        ),
        fix=_uverbs_fix(node, set(refused.values())),
    )


def userland(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ofed.userland: libibverbs loads, and sees all devices."""
    fabric = node.fabric
    if not fabric.devices:
        return skipped("no RDMA device" if fabric.has_rdma_hardware else NO_RDMA)
    library, seen = node.readings.text("libibverbs"), node.readings.number("libibverbs_devices")
    if library is None:
        return skipped("libibverbs was not looked for")
    if library != "ok":
        return failed(
            f"libibverbs.so.1 does not load ({library})", Evidence.of("dlopen libibverbs.so.1", library)
        )
    if seen is None:
        return skipped("libibverbs loads; how many devices it sees is not known")
    evidence = Evidence.of("ibv_get_device_list", f"{seen:g} devices")
    if seen < len(fabric.devices):
        return Outcome(
            Verdict.FAIL,
            f"libibverbs sees {seen:g} of {len(fabric.devices)} devices",
            (evidence,),
            explained_by=("ofed.modules", "ofed.uverbs"),
        )
    return passed(f"libibverbs sees {seen:g} devices", evidence)


def _needed(node: ProbedNode) -> tuple[str, ...]:
    """The modules without which the node's cards have no usable RDMA device."""
    if _has_mellanox(node):
        # ConnectX-3 and older have a driver of their own.
        old = bool(loaded(node.readings, "mlx4_core")) and not loaded(node.readings, "mlx5_core")
        return (
            ("mlx4_core", "mlx4_ib", "ib_core", "ib_uverbs")
            if old
            else ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs")
        )
    if any(device.is_efa for device in node.fabric.devices):
        return ("efa", "ib_core", "ib_uverbs")
    return ("ib_core", "ib_uverbs")


def _has_mellanox(node: ProbedNode) -> bool:
    fabric = node.fabric
    return any(function.is_rdma and function.vendor == MELLANOX for function in fabric.pci) or any(
        device.vendor == MELLANOX for device in fabric.devices
    )


def _out_of_tree(node: ProbedNode, name: str) -> bool:
    found = (node.fabric.modules or {}).get(name)
    return found is not None and found.out_of_tree


def _stack_name(node: ProbedNode) -> str | None:
    """What a node's stack is called, for comparing; None: not known, or it has no such card."""
    if not _has_mellanox(node):
        return None
    user, core = node.fabric.user_stack, node.readings.file(_CORE_VERSION)
    if user is not None:
        return user.raw
    if node.fabric.in_container or odd_answer(node.readings):
        return None
    return (
        core
        or f"the kernel's own of {node.readings.file('/proc/sys/kernel/osrelease') or 'an unknown kernel'}"
    )


def _release(stack: str) -> str:
    """A stack's name without its build: `MLNX_OFED_LINUX-24.07` of `MLNX_OFED_LINUX-24.07-0.6.1.0`."""
    found = re.match(r"\D*\d+\.\d+", stack)
    return found[0] if found else stack


def _uverbs_fix(node: ProbedNode, answers: set[str]) -> str:
    if node.fabric.in_container:
        return "start the container with --device=/dev/infiniband (and --ulimit memlock=-1)"
    if answers == {"ENOENT"}:
        return "load ib_uverbs (modprobe ib_uverbs, as root)"
    return "make /dev/infiniband/uverbs* 0666 (udev rule of rdma-core), or add the user to the rdma group"


CHECKS = (
    Check(
        id="ofed.modules",
        group=Group.OFED,
        title="RDMA modules are loaded",
        reads=f"{_MODULES}, /sys/module/*, {_MAD}",
        rule=(
            "fail: an RDMA card is on the bus, and its driver (mlx5_ib), ib_core or ib_uverbs is not loaded; "
            "warn: no ib_umad, or the card is Ethernet only; skip: no such card"
        ),
        symptom="`No IB devices found`; ibstat: `can't init UMAD library`",
        fix="modprobe mlx5_ib ib_uverbs (as root), or restart openibd",
        source="linux-rdma/rdma-core; mej/nhc",
        node=modules,
        explained_by=("ofed.halves",),
    ),
    Check(
        id="ofed.stack",
        group=Group.OFED,
        title="one RDMA stack",
        reads=f"ofed_info -s, {_CORE_VERSION}, the kernel's release",
        rule=(
            "pass: an OFED, or the kernel's own drivers; warn: an OFED is installed and the kernel's own "
            "driver is loaded, or nodes have several builds of one release, or an OFED and the kernel's own; "
            "fail: nodes have two releases of OFED; skip: in a container without ofed_info, or it names none"
        ),
        symptom="HPC-X or UCX built for another rdma-core fail to load, or crash",
        fix="bring the nodes to one image",
        source="nccl-tests issue 200; ofed_info of MLNX_OFED and DOCA-OFED",
        node=stack,
        pool=stack_uniform,
        explained_by=("ofed.halves",),
    ),
    Check(
        id="ofed.halves",
        group=Group.OFED,
        title="modules of one stack",
        reads=f"the taint letters in {_MODULES} of {', '.join(_HALVES)}; ofed_info -s; {_CORE_VERSION}",
        rule=(
            "fail: some are an OFED's (O) and others the kernel's; warn: the installed version is not the "
            "loaded one"
        ),
        symptom="`Unknown symbol` in the kernel's log, and no RDMA device, after an update of the kernel",
        fix="install the OFED again for this kernel (dkms), then reboot",
        source="linux Documentation/admin-guide/tainted-kernels.rst; nv_peer_memory issue 84",
        node=halves,
    ),
    Check(
        id="ofed.uverbs",
        group=Group.OFED,
        title="devices may be opened",
        reads=f"{VERBS}/uverbs*/ibdev; open(/dev/infiniband/uverbs*)",
        rule="fail: opening one gives EACCES, EPERM or ENOENT",
        symptom="`NET/IB : Unable to open device mlx5_0`, then sockets; on some nodes only: a hang",
        fix="make /dev/infiniband/uverbs* 0666 (udev rule of rdma-core), or add the user to the rdma group",
        source="nccl issue 2428; linux-rdma/rdma-core udev rules",
        node=uverbs,
        explained_by=("ofed.modules",),
    ),
    Check(
        id="ofed.userland",
        group=Group.OFED,
        title="libibverbs sees the devices",
        reads="dlopen of libibverbs.so.1 and ibv_get_device_list, as a rank would",
        rule="fail: it does not load, or sees fewer devices than /sys shows",
        symptom="`Failed to open libibverbs.so[.1]`; `Failed to get IB devices list: ...`",
        fix="install rdma-core and ibverbs-providers (in the container's image)",
        source="NCCL src/misc/ibvsymbols.cc; nccl issue 451",
        node=userland,
    ),
)
