"""Do the GPUs work as they should: memory errors, throttling, PCIe width, errors in the kernel log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.nvidia_smi import Gpu
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.readings import CommandReading

THROTTLED = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
"""Bits of nvmlClocksEventReasons that mean trouble; 0x1 is idle and 0x4 the usual power cap."""

BAD_XIDS = frozenset({48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120})
"""Those that Azure/azurehpc-health-checks takes a node out for; 13, 31, 43, 45 are usually the program's."""

XID_WINDOW = 7200.0
"""Seconds back from now in which an Xid counts: two hours."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([^)]*)\): ([0-9]{1,6})")
_BOOT_TIME = re.compile(r"^\[ *([0-9]+\.[0-9]+)\]")


def memory_health(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.memory-health."""
    gpus = node.gpus.smi.gpus
    uncorrected, pending = "ecc.errors.uncorrected.volatile.total", "remapped_rows.pending"
    failures = "remapped_rows.failure"
    bad = [
        (f"GPU {gpu.index} has {gpu.text(uncorrected)} uncorrected memory errors", gpu.evidence(uncorrected))
        for gpu in gpus
        if (gpu.number(uncorrected) or 0) > 0
    ]
    bad += [
        (f"GPU {gpu.index} could not replace a bad memory row", gpu.evidence(failures))
        for gpu in gpus
        if _yes(gpu, failures)
    ]
    bad += [
        (f"GPU {gpu.index} waits for a reset to replace a bad memory row", gpu.evidence(pending))
        for gpu in gpus
        if _yes(gpu, pending)
    ]
    if bad:
        return failed("; ".join(text for text, _ in bad), *(evidence for _, evidence in bad))
    off = [gpu for gpu in gpus if gpu.text("ecc.mode.current") == "Disabled"]
    if off:
        which = "all GPUs" if len(off) == len(gpus) else f"GPU {', '.join(gpu.index for gpu in off)}"
        return warned(
            f"memory error correction (ECC) is off on {which}",
            *(gpu.evidence("ecc.mode.current") for gpu in off),
            fix="nvidia-smi -e 1 as root, then a reboot",
        )
    known = [gpu for gpu in gpus if gpu.text(uncorrected) or gpu.text(pending)]
    if not known:
        return skipped("these GPUs do not tell of memory errors" if gpus else node.gpus.why_no_rows)
    return passed("no uncorrected memory errors", known[0].evidence(uncorrected))


def _yes(gpu: Gpu, field: str) -> bool:
    return (gpu.text(field) or "").lower() in ("yes", "1")


def throttle(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.throttle."""
    masks = [(gpu, field, bits) for gpu in node.gpus.smi.gpus for field, bits in _masks(gpu)]
    if not masks:
        return skipped("these GPUs do not tell it" if node.gpus.smi.gpus else node.gpus.why_no_rows)
    slow = [(gpu, field, why) for gpu, field, bits in masks if (why := _reasons(bits))]
    if slow:
        return warned(
            "; ".join(f"GPU {gpu.index} is held down by {why}" for gpu, _, why in slow),
            *(gpu.evidence(field) for gpu, field, _ in slow),
        )
    gpu, field, _ = masks[0]
    return passed("nothing holds the clocks down", gpu.evidence(field))


def _masks(gpu: Gpu) -> list[tuple[str, int]]:
    fields = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
    return [(field, bits) for field in fields if (bits := gpu.bits(field)) is not None][:1]


def _reasons(bits: int) -> str:
    return " and ".join(why for bit, why in THROTTLED.items() if bits & bit)


def pcie(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.pcie: the width only. At idle a GPU lowers the generation to save power."""
    now, most = "pcie.link.width.current", "pcie.link.width.max"
    known = [
        (gpu, width, widest)
        for gpu in node.gpus.smi.gpus
        if (width := gpu.number(now)) and (widest := gpu.number(most))
    ]
    narrow = [(gpu, width, widest) for gpu, width, widest in known if width < widest]
    if narrow:
        return warned(
            "; ".join(
                f"GPU {gpu.index} has {width:.0f} of {widest:.0f} lanes" for gpu, width, widest in narrow
            ),
            *(gpu.evidence(field) for gpu, _, _ in narrow for field in (now, most)),
        )
    if not known:
        return skipped(
            "these GPUs do not tell their PCIe width" if node.gpus.smi.gpus else node.gpus.why_no_rows
        )
    return passed(f"all GPUs have their {known[0][2]:.0f} lanes", known[0][0].evidence(now))


@dataclass(frozen=True, slots=True)
class Xid:
    """One error report of the NVIDIA driver in the kernel log."""

    device: str
    number: int
    line: str


def xid(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """gpu.xid."""
    if not node.gpus.nvidia_functions and not node.gpus.smi.gpus:
        return skipped(node.gpus.why_no_rows)
    log = _kernel_log(node)
    if log is None:
        return skipped("the kernel log is not for this user to read")
    unused = {_place(gpu.text("pci.bus_id") or "") for gpu in node.gpus.smi.unused}
    found = [each for each in _xids(log, _uptime(node)) if _place(each.device) not in unused]
    if not found:
        return passed("no Xid in the kernel log of the last two hours", Evidence.of(log.line, "no Xid"))
    bad = [each for each in found if each.number in BAD_XIDS]
    shown = _distinct(bad or found)
    message = "; ".join(f"Xid {each.number} of the GPU at {each.device}" for each in shown)
    evidence = [Evidence.of(log.line, each.line) for each in shown]
    if bad:
        return failed(f"the driver reported {message}", *evidence)
    return warned(f"the driver reported {message}: usually a program's fault", *evidence)


def _kernel_log(node: ProbedNode) -> CommandReading | None:
    """The first of journalctl and dmesg that could read it."""
    for program in ("journalctl", "dmesg"):
        for asked in node.readings.ran(program):
            hidden = "not seeing messages" in asked.stderr or "insufficient permissions" in asked.stderr
            # `journalctl -g` ends with 1 where nothing matches
            if not hidden and (asked.rc == 0 or (asked.rc == 1 and "-- No entries --" in asked.stdout)):
                return asked
    return None


def _xids(log: CommandReading, uptime: float | None) -> list[Xid]:
    found = []
    for line in log.stdout.splitlines():
        match = _XID.search(line)
        if match is None:
            continue
        since_boot = _BOOT_TIME.match(line)  # dmesg has no window of its own
        if since_boot and uptime is not None and uptime - float(since_boot[1]) > XID_WINDOW:
            continue
        found.append(Xid(match[1], int(match[2]), line.strip()))
    return found


def _place(device: str) -> tuple[str, ...]:
    """A PCI address as the kernel's log (`0000:1b:00`) and nvidia-smi (`00000000:1B:00.0`) have it, alike."""
    return tuple(part.lstrip("0") for part in device.lower().partition(".")[0].split(":"))


def _distinct(xids: Sequence[Xid]) -> list[Xid]:
    return list({(each.device, each.number): each for each in xids}.values())[:8]


def _uptime(node: ProbedNode) -> float | None:
    first = (node.readings.file("/proc/uptime") or "").partition(" ")[0]
    return float(first) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", first) else None


CHECKS = (
    Check(
        id="gpu.memory-health",
        group=Group.GPU,
        title="no memory errors",
        reads="nvidia-smi ecc.mode.current, ecc.errors.uncorrected.volatile.total, "
        "remapped_rows.{pending,failure}",
        rule="fail: uncorrected errors since the driver was loaded, a row that could not be replaced, or one "
        "that waits for a reset; warn: error correction is off",
        symptom="CUDA error: uncorrectable ECC error encountered, or wrong numbers",
        fix="reset the GPU or reboot the node; have it replaced if it happens again",
        source="NVIDIA GPU Memory Error Management; Azure/azurehpc-health-checks, NVIDIA/DCGM",
        node=memory_health,
        explained_by=("gpu.driver", "gpu.lost"),
    ),
    Check(
        id="gpu.throttle",
        group=Group.GPU,
        title="clocks not held down",
        reads="nvidia-smi clocks_event_reasons.active (before driver 535: clocks_throttle_reasons.active)",
        rule="warn: hardware slowdown (0x8), thermal slowdown (0x40) or power brake (0x80); idle (0x1) and "
        "the power cap (0x4) are usual",
        symptom="one node is slower than the others, and all wait for it",
        fix="look at cooling and power supplies of the node",
        source="nvml.h, nvmlClocksEventReasons",
        node=throttle,
    ),
    Check(
        id="gpu.pcie",
        group=Group.GPU,
        title="all PCIe lanes",
        reads="nvidia-smi pcie.link.width.{current,max}",
        rule="warn: fewer lanes than the GPU has; a low PCIe generation is no fault while the GPU is idle",
        symptom="slow copies between host and GPU, slow data loading on that node",
        fix="reseat the GPU; look at the BIOS's bifurcation",
        source="nvidia-smi manual, PCIe Link",
        node=pcie,
    ),
    Check(
        id="gpu.xid",
        group=Group.GPU,
        title="no Xid in the kernel log",
        reads="journalctl -k --since -2h, else dmesg with /proc/uptime",
        rule=f"fail: Xid {', '.join(map(str, sorted(BAD_XIDS)))}; warn: another Xid (13, 31, 43, 45: usually "
        "the program); skip: the log is not readable",
        symptom="ranks hang or die on that node",
        fix="look the number up in NVIDIA's Xid table; reset the GPU or reboot the node",
        source="NVIDIA Xid Errors; the list is that of Azure/azurehpc-health-checks",
        node=xid,
        explained_by=("gpu.lost",),
    ),
)
