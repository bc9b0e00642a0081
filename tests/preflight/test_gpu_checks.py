"""GPU checks: each row is a small change to a healthy node, and what must be said to it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest

from preflight.cases import ASKED, Case, holds, on_node, over_pool
from preflight.healthy import healthy, nvlinks, with_cell, without_queries
from preflight.recordings import changed
from rankdeck_backends.preflight.subject import Asked
from rankdeck_profiles.readings import CommandReading, Readings

AMD = {
    **{f"/sys/bus/pci/devices/0000:0{slot}:00.0/vendor": "0x1002\n" for slot in (1, 2)},
    **{f"/sys/bus/pci/devices/0000:0{slot}:00.0/class": "0x120000\n" for slot in (1, 2)},
    "/sys/class/kfd/kfd/topology/nodes/0/properties": "simd_count 0\ncpu_cores_count 64\n",
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\ngfx_target_version 90402\n",
    "/sys/class/kfd/kfd/topology/nodes/2/properties": "simd_count 304\ngfx_target_version 90402\n",
    "/sys/module/amdgpu/version": "6.12.12\n",
}
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.181\n"
LOST = "Unable to determine the device handle for GPU5: 0000:C3:00.0: Unknown Error\n"


def cell(gpu: int, field: str, text: str):
    return partial(with_cell, gpu=gpu, field=field, cell=text)


def answer(rc: int | None, text: str):
    """All queries of GPUs answer the same."""

    def change(readings: Readings) -> Readings:
        return replace(
            readings,
            commands=tuple(
                replace(each, rc=rc, stdout=text) if "--query-gpu" in each.line else each
                for each in readings.commands
            ),
        )

    return change


def before(text: str):
    """All queries of GPUs have a line before their table."""

    def change(readings: Readings) -> Readings:
        return replace(
            readings,
            commands=tuple(
                replace(each, stdout=text + each.stdout) if "--query-gpu" in each.line else each
                for each in readings.commands
            ),
        )

    return change


def renamed(old: str, new: str):
    def change(readings: Readings) -> Readings:
        return replace(
            readings,
            commands=tuple(replace(each, stdout=each.stdout.replace(old, new)) for each in readings.commands),
        )

    return change


def without_gpu(index: int):
    """Its rows are missing from all tables."""

    def change(readings: Readings) -> Readings:
        return replace(
            readings,
            commands=tuple(
                replace(each, stdout=re.sub(rf"^{index}, .*\n", "", each.stdout, flags=re.MULTILINE))
                for each in readings.commands
            ),
        )

    return change


def both(*changes):
    def change(readings: Readings) -> Readings:
        for each in changes:
            readings = each(readings)
        return readings

    return change


def no_gpus(readings: Readings) -> Readings:
    """As a node without any GPU, and without nvidia-smi."""
    kept = {
        path: text
        for path, text in readings.files.items()
        if not path.startswith(("/sys/bus/pci", "/proc/driver", "/sys/module/nvidia/"))
    }
    kept["/sys/bus/pci/devices/0000:00:02.0/vendor"] = "0x1a03\n"
    kept["/sys/bus/pci/devices/0000:00:02.0/class"] = "0x030000\n"
    return replace(without_queries(readings), files=kept)


def no_pci_gpus(readings: Readings) -> Readings:
    return replace(no_gpus(readings), commands=readings.commands)


def with_amd(readings: Readings) -> Readings:
    return changed(no_gpus(readings), files=AMD)


def processes(text: str) -> dict[tuple[str, ...], str]:
    header = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    fields = "gpu_uuid,pid,process_name,used_gpu_memory"
    return {("nvidia-smi", f"--query-compute-apps={fields}", "--format=csv"): header + text}


def topology(change: str):
    return renamed("GPU0\t X \tNV18", f"GPU0\t X \t{change}")


RACK = both(
    renamed("NVIDIA H100 80GB HBM3", "NVIDIA GB200"),
    cell(0, "fabric.clusterUuid", "11111111-2222-3333-4444-555555555555"),
    cell(0, "fabric.cliqueId", "1"),
)
FABRIC_MANAGER = ("systemctl", "is-active", "nvidia-fabricmanager")
NVSWITCH = {
    "/sys/bus/pci/devices/0000:05:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:05:00.0/class": "0x068000\n",
}
NO_FABRIC = both(*(cell(gpu, "fabric.state", "[N/A]") for gpu in range(8)))
XID = "[86000.1] NVRM: Xid (PCI:0000:1b:00): {}, pid=1234, name=python3, GPU has fallen off the bus.\n"
JOURNAL = ("journalctl", "-k")

NODES = [
    Case("gpu.driver", "pass", "570.172.08"),
    Case(
        "gpu.driver",
        "fail",
        "kernel has NVIDIA driver 570.172.08, the programs have 570.181",
        change=answer(18, MISMATCH),
    ),
    Case(
        "gpu.driver",
        "fail",
        "couldn't communicate",
        change=answer(9, "NVIDIA-SMI has failed because it couldn't communicate"),
    ),
    Case(
        "gpu.driver", "fail", "finds no GPU (8 on the PCI bus)", change=answer(6, "No devices were found\n")
    ),
    Case("gpu.driver", "fail", "no answer in its time", change=answer(None, "")),
    Case("gpu.driver", "fail", "no answer in its time", change=answer(124, "")),
    Case("gpu.driver", "fail", "in its time", change=answer(None, ""), syscalls={"patience": 20.0}),
    Case(
        "gpu.driver",
        "warn",
        "within the 5 s that a launch waits",
        change=answer(None, ""),
        syscalls={"patience": 5.0},
    ),
    Case("gpu.count", "skip", "not known", change=answer(None, ""), syscalls={"patience": 5.0}),
    Case("gpu.lost", "skip", "gave no answer", change=answer(None, ""), syscalls={"patience": 5.0}),
    Case(
        "gpu.driver", "skip", "no NVIDIA GPU", change=both(no_pci_gpus, answer(6, "No devices were found\n"))
    ),
    Case("gpu.driver", "skip", "no NVIDIA GPU", change=no_gpus),
    Case("gpu.driver", "skip", "driver 570.172.08 is loaded", change=without_queries),
    Case(
        "gpu.driver",
        "fail",
        "the module nvidia is not loaded",
        change=without_queries,
        files={
            "/proc/driver/nvidia/version": None,
            "/sys/module/nvidia/version": None,
            "/proc/modules": "ext4 1 0 - Live 0x0\n",
        },
    ),
    Case("gpu.lost", "pass", "all 8 GPUs answer"),
    Case(
        "gpu.lost",
        "fail",
        "GPU 3 says GPU requires reset",
        change=cell(3, "memory.used", "[GPU requires reset]"),
    ),
    Case(
        "gpu.lost", "fail", "GPU 3 says Unknown Error", change=cell(3, "temperature.gpu", "[Unknown Error]")
    ),
    Case("gpu.lost", "fail", "GPU 0 says ERR!", change=cell(0, "utilization.gpu", "ERR!")),
    Case("gpu.lost", "fail", "GPU 2 needs Reboot", change=cell(2, "gpu_recovery_action", "Reboot")),
    Case("gpu.lost", "fail", "GPU5: 0000:C3:00.0", change=before(LOST)),
    Case("gpu.lost", "fail", "GPU 0000:BA:00.0", change=before(LOST.replace("GPU5: 0000:C3", "GPU 0000:BA"))),
    Case("gpu.lost", "fail", "GPU5", change=answer(15, LOST)),
    Case("gpu.lost", "pass", change=cell(3, "utilization.gpu", "[N/A]")),
    Case("gpu.lost", "pass", change=cell(3, "temperature.gpu", "[Not Supported]")),
    Case("gpu.lost", "skip", change=answer(18, MISMATCH)),
    Case("gpu.count", "pass", "8 GPUs"),
    Case(
        "gpu.count",
        "fail",
        "7 of 8 GPUs",
        change=without_gpu(6),
        asked=replace(ASKED, slots=None),
    ),
    Case("gpu.count", "fail", "16 ranks asked for, 8 GPUs", asked=replace(ASKED, slots=16)),
    Case(
        "gpu.count",
        "pass",
        "7 GPUs",
        change=without_gpu(6),
        syscalls={"in_container": True},
        asked=replace(ASKED, slots=4),
    ),
    Case("gpu.count", "skip", "not known", change=answer(18, MISMATCH)),
    Case("gpu.count", "skip", "no GPU", change=no_gpus),
    Case("gpu.count", "pass", "2 GPUs", change=no_gpus, files=AMD, asked=replace(ASKED, slots=2)),
    Case("gpu.memory-health", "pass"),
    Case(
        "gpu.memory-health",
        "fail",
        "GPU 1 has 3 uncorrected",
        change=cell(1, "ecc.errors.uncorrected.volatile.total", "3"),
    ),
    Case(
        "gpu.memory-health", "fail", "GPU 1 waits for a reset", change=cell(1, "remapped_rows.pending", "Yes")
    ),
    Case(
        "gpu.memory-health", "fail", "GPU 1 could not replace", change=cell(1, "remapped_rows.failure", "Yes")
    ),
    Case("gpu.memory-health", "warn", "off on GPU 4", change=cell(4, "ecc.mode.current", "Disabled")),
    Case("gpu.memory-health", "skip", change=answer(18, MISMATCH)),
    Case(
        "gpu.memory-health",
        "skip",
        "do not tell",
        change=both(
            *(
                cell(gpu, field, "[N/A]")
                for gpu in range(8)
                for field in (
                    "ecc.mode.current",
                    "ecc.errors.uncorrected.volatile.total",
                    "remapped_rows.pending",
                )
            )
        ),
    ),
    Case("gpu.mig", "pass"),
    Case("gpu.mig", "pass", change=cell(0, "mig.mode.current", "[N/A]")),
    Case("gpu.mig", "fail", "GPU 2", change=cell(2, "mig.mode.current", "Enabled")),
    Case(
        "gpu.mig",
        "fail",
        "1 listed",
        commands={
            (
                "nvidia-smi",
                "-L",
            ): "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        },
    ),
    Case(
        "gpu.mig",
        "warn",
        "as CUDA_VISIBLE_DEVICES asks",
        change=cell(2, "mig.mode.current", "Enabled"),
        asked=replace(ASKED, env={"CUDA_VISIBLE_DEVICES": "MIG-6d1f0c52"}),
    ),
    Case("gpu.mig", "skip", change=answer(18, MISMATCH)),
    Case("gpu.busy", "pass"),
    Case(
        "gpu.busy",
        "warn",
        "GPU GPU-1 is used by process 4711 (my, odd name)",
        commands=processes("GPU-1, 4711, my, odd name, 400 MiB\n"),
    ),
    Case(
        "gpu.busy",
        "warn",
        "of another user or container",
        commands=processes("GPU-1, 4711, [Not Found], 400 MiB\n"),
    ),
    Case("gpu.busy", "warn", "GPU 6 has 20000 MiB in use", change=cell(6, "memory.used", "20000 MiB")),
    Case("gpu.busy", "pass", change=cell(6, "memory.used", "1000 MiB")),
    Case(
        "gpu.busy",
        "warn",
        "GPU 1 takes one process only",
        change=cell(1, "compute_mode", "Exclusive_Process"),
    ),
    Case("gpu.busy", "fail", "GPU 1 takes no programs", change=cell(1, "compute_mode", "Prohibited")),
    Case("gpu.busy", "skip", change=answer(18, MISMATCH)),
    Case("gpu.throttle", "pass"),
    Case("gpu.throttle", "pass", change=cell(0, "clocks_event_reasons.active", "0x0000000000000004")),
    Case(
        "gpu.throttle",
        "warn",
        "GPU 1 is held down by hardware slowdown and hardware thermal slowdown",
        change=cell(1, "clocks_event_reasons.active", "0x0000000000000048"),
    ),
    Case(
        "gpu.throttle",
        "warn",
        "power brake",
        change=cell(1, "clocks_event_reasons.active", "0x0000000000000080"),
    ),
    Case("gpu.throttle", "skip", change=answer(18, MISMATCH)),
    Case("gpu.pcie", "pass", "16 lanes"),
    Case("gpu.pcie", "warn", "GPU 2 has 8 of 16 lanes", change=cell(2, "pcie.link.width.current", "8")),
    Case("gpu.pcie", "pass", change=cell(2, "pcie.link.gen.current", "1")),
    Case(
        "gpu.pcie", "skip", change=both(*(cell(gpu, "pcie.link.width.current", "[N/A]") for gpu in range(8)))
    ),
    Case("gpu.fabric", "pass"),
    Case(
        "gpu.fabric",
        "fail",
        "GPU 3 has not joined the NVLink fabric: In Progress",
        change=cell(3, "fabric.state", "In Progress"),
    ),
    Case("gpu.fabric", "fail", "Not Started", change=cell(3, "fabric.state", "Not Started")),
    Case(
        "gpu.fabric", "fail", "GPU 3 was refused", change=cell(3, "fabric.status", "Insufficient resources")
    ),
    Case("gpu.fabric", "pass", "Fabric Manager runs", change=NO_FABRIC),
    Case("gpu.fabric", "skip", change=NO_FABRIC, commands={FABRIC_MANAGER: None}),
    Case(
        "gpu.fabric", "skip", "not known", change=NO_FABRIC, commands={FABRIC_MANAGER: None}, files=NVSWITCH
    ),
    Case(
        "gpu.fabric",
        "fail",
        "Fabric Manager is failed",
        change=NO_FABRIC,
        commands={FABRIC_MANAGER: "failed\n"},
        files=NVSWITCH,
    ),
    Case(
        "gpu.fabric",
        "fail",
        "the Fabric Manager is 570.133.20, the driver 570.172.08",
        commands={("nv-fabricmanager", "--version"): "Fabric Manager version is : 570.133.20\n"},
        files=NVSWITCH,
    ),
    Case("gpu.nvlink", "pass", "NV18"),
    Case(
        "gpu.nvlink",
        "fail",
        "GPU 3: NVLink 2 inactive",
        commands={("nvidia-smi", "nvlink", "-s"): nvlinks({3: 2})},
    ),
    Case("gpu.nvlink", "warn", "NV18 (27 pairs), NV9 (1 pairs)", change=topology("NV9")),
    Case("gpu.nvlink", "warn", "SYS (1 pairs)", change=topology("SYS")),
    Case(
        "gpu.nvlink",
        "skip",
        change=renamed("NVIDIA H100 80GB HBM3", "NVIDIA L40S"),
        commands={("nvidia-smi", "nvlink", "-s"): ""},
    ),
    Case(
        "gpu.nvlink",
        "skip",
        commands={("nvidia-smi", "nvlink", "-s"): None, ("nvidia-smi", "topo", "-m"): None},
    ),
    Case("gpu.xid", "pass"),
    Case("gpu.xid", "fail", "Xid 79 of the GPU at 0000:1b:00", commands={JOURNAL: XID.format(79)}),
    Case("gpu.xid", "warn", "Xid 31", commands={JOURNAL: XID.format(31)}),
    Case("gpu.xid", "fail", "Xid 48", commands={JOURNAL: None, ("dmesg",): XID.format(48)}),
    Case("gpu.xid", "pass", commands={JOURNAL: None, ("dmesg",): XID.format(48).replace("86000", "100")}),
    Case("gpu.xid", "skip", "not for this user", commands={JOURNAL: None, ("dmesg",): 1}),
    Case("gpu.xid", "skip", "not for this user", commands={JOURNAL: None}),
    Case("gpu.xid", "skip", "no NVIDIA GPU", change=no_gpus),
    Case("gpu.amd", "pass", "2 AMD GPUs", change=no_gpus, files=AMD, syscalls={"kfd_open": "ok"}),
    Case(
        "gpu.amd",
        "fail",
        "may not open /dev/kfd (EACCES)",
        change=no_gpus,
        files=AMD,
        syscalls={"kfd_open": "EACCES"},
    ),
    Case("gpu.amd", "fail", "offers none", change=no_gpus, files=AMD, syscalls={"kfd_open": "ENOENT"}),
    Case("gpu.amd", "fail", "EBUSY", change=no_gpus, files=AMD, syscalls={"kfd_open": "EBUSY"}),
    Case("gpu.amd", "skip", "not known", change=no_gpus, files=AMD),
    Case("gpu.amd", "skip", "no AMD GPU"),
    Case("gpu.imex", "pass", change=RACK, syscalls={"imex_channel": "ok"}),
    Case("gpu.imex", "fail", "is not there", change=RACK, syscalls={"imex_channel": "ENOENT"}),
    Case("gpu.imex", "fail", "cannot be opened (EACCES)", change=RACK, syscalls={"imex_channel": "EACCES"}),
    Case("gpu.imex", "skip", "not known", change=RACK),
    Case("gpu.imex", "skip", "no GPUs of an NVLink rack"),
]

POOLS = [
    Case("gpu.driver", "pass", "all nodes"),
    Case(
        "gpu.driver",
        "warn",
        "570.172.08 on n1, n3; 550.90.07 on n2",
        change=renamed("570.172.08", "550.90.07"),
    ),
    Case("gpu.driver", "skip", change=no_gpus, everywhere=True),
    Case("gpu.count", "pass"),
    Case(
        "gpu.count",
        "fail",
        "fewer GPUs than the other nodes' 8: 7 on n2",
        change=without_gpu(6),
        asked=replace(ASKED, slots=None),
    ),
    Case(
        "gpu.count",
        "pass",
        "each has one for every rank",
        change=without_gpu(6),
        asked=replace(ASKED, slots=4),
    ),
    Case("gpu.count", "skip", change=no_gpus, everywhere=True),
    Case("gpu.same-model", "pass", "NVIDIA H100 80GB HBM3"),
    Case(
        "gpu.same-model",
        "fail",
        "NVIDIA A100-SXM4-80GB on n2",
        change=renamed("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"),
    ),
    Case("gpu.same-model", "fail", "95830 MiB on n2", change=renamed("81559 MiB", "95830 MiB")),
    Case(
        "gpu.same-model", "fail", "40960 MiB and 81559 MiB on n2", change=cell(0, "memory.total", "40960 MiB")
    ),
    Case("gpu.same-model", "pass", change=renamed("81559 MiB", "81400 MiB")),
    Case("gpu.same-model", "fail", "HBM3 and NVIDIA L4 on n2", change=cell(1, "name", "NVIDIA L4")),
    Case(
        "gpu.same-model",
        "warn",
        "96.00.99 on n2",
        base=cell(0, "vbios_version", "96.00.A5"),
        change=cell(0, "vbios_version", "96.00.99"),
    ),
    Case("gpu.same-model", "skip", change=no_gpus, everywhere=True),
    Case("gpu.amd", "pass", "6.12.12", change=no_gpus, files=AMD, everywhere=True),
    Case("gpu.amd", "warn", "6.8.5 on n2", base=with_amd, files={"/sys/module/amdgpu/version": "6.8.5\n"}),
    Case("gpu.amd", "skip"),
    Case("gpu.imex", "pass", change=RACK, everywhere=True),
    Case("gpu.imex", "warn", "clique 2 on n2", base=RACK, change=cell(0, "fabric.cliqueId", "2")),
    Case("gpu.imex", "skip"),
]


@pytest.mark.parametrize("case", NODES, ids=str)
def test_node(case: Case) -> None:
    holds(case, case.on_node())


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pool(case: Case) -> None:
    holds(case, case.over_pool())


def test_the_kernel_log_is_not_taken_for_clean_where_it_is_hidden() -> None:
    hint = "Hint: You are currently not seeing messages from other users and the system."
    readings = healthy()
    hidden = CommandReading(JOURNAL, 0, "-- No entries --\n", hint)
    others = tuple(each for each in readings.commands if each.argv != JOURNAL)
    assert on_node("gpu.xid", replace(readings, commands=(*others, hidden))).verdict == "skip"


def some_gpus(*used: int, slots: int = 2) -> Asked:
    """The pool, or the person, chose some of n1's eight GPUs."""
    return replace(ASKED, slots=slots, gpus_of={"n1": frozenset(map(str, used))})


FIRST_UUID = "GPU-34d8d5f5-a9b5-28e7-22b0-b5b2e5c30f85"
"""GPU 0 of the recorded node, at 0000:1b:00."""
APPS = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv")
WRONG_WITH_THE_FIRST = [
    ("gpu.lost", cell(0, "utilization.gpu", "ERR!"), {}),
    ("gpu.lost", cell(0, "gpu_recovery_action", "Reboot"), {}),
    ("gpu.memory-health", cell(0, "ecc.errors.uncorrected.volatile.total", "3"), {}),
    ("gpu.throttle", cell(0, "clocks_event_reasons.active", "0x0000000000000040"), {}),
    ("gpu.pcie", cell(0, "pcie.link.width.current", "8"), {}),
    ("gpu.busy", cell(0, "compute_mode", "Prohibited"), {}),
    ("gpu.busy", cell(0, "memory.used", "20000 MiB"), {}),
    ("gpu.busy", None, {APPS: f"uuid, pid, name, memory\n{FIRST_UUID}, 77, python, 900 MiB\n"}),
    ("gpu.mig", cell(0, "mig.mode.current", "Enabled"), {}),
    ("gpu.fabric", cell(0, "fabric.state", "In Progress"), {}),
    ("gpu.nvlink", None, {("nvidia-smi", "nvlink", "-s"): nvlinks({0: 2})}),
    ("gpu.xid", None, {JOURNAL: XID.format(79)}),
]


@pytest.mark.parametrize(
    ("check", "change", "commands"), WRONG_WITH_THE_FIRST, ids=lambda value: str(value)[:24]
)
def test_what_is_wrong_with_a_gpu_that_was_left_out_harms_nobody(check, change, commands) -> None:
    readings = changed(change(healthy()) if change is not None else healthy(), commands=commands)
    assert on_node(check, readings).verdict in ("warn", "fail")
    assert on_node(check, readings, some_gpus(0, 3)).verdict in ("warn", "fail")
    assert on_node(check, readings, some_gpus(2, 3)).verdict == "pass"


def test_the_gpus_that_were_chosen_are_counted() -> None:
    counted = on_node("gpu.count", healthy(), some_gpus(2, 3))
    assert (counted.verdict, counted.message) == ("pass", "2 of the node's 8 GPUs are used, as chosen")
    few = on_node("gpu.count", healthy(), some_gpus(2, 3, slots=4))
    assert few.verdict == "fail"
    assert few.message == "4 ranks asked for, 2 GPUs there for them (of 8, as chosen)"
    over = {f"n{number}": healthy(number) for number in (1, 2, 3)}
    odd = on_node("gpu.count", healthy(), replace(some_gpus(2, 3), slots=None))
    assert odd.verdict == "pass"
    assert over_pool("gpu.count", over, replace(some_gpus(2, 3), slots=None)).verdict == "fail"
