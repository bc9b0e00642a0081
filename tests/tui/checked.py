"""Preflight reports to show: recorded nodes, judged as `rankdeck check --replay` does."""

from __future__ import annotations

from functools import cache

from preflight.recordings import recorded
from rankdeck_backends.preflight.finding import Evidence, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_runs.checking import Checked, replayed

ODD = {"gpu007": "ndr-port-down", "gpu020": "ib-init-no-sm", "gpu033": "nvml-mismatch"}
"""What is wrong among 64 healthy nodes: a port is down, one lacks a subnet manager, a driver is in halves."""


@cache
def large() -> Checked:
    """64 nodes, three of them at fault."""
    names = [f"gpu{number:03}" for number in range(1, 65)]
    return replayed({name: recorded(ODD.get(name, "ndr-ok-a")) for name in names}, None, "torchrun")


@cache
def small(*cases: str) -> Checked:
    """A few recorded nodes, by their own names."""
    return replayed({case: recorded(case) for case in cases}, None, "torchrun")


PASSING = (
    "ib.present", "ib.port-state", "ib.subnet-manager", "ib.rate", "ofed.modules", "ofed.uverbs", "gdr.path",
    "gpu.driver", "gpu.count", "gpu.lost", "sw.python", "ssh.connect", "net.hostname", "fs.space",
    "os.memlock", "os.nofile", "clock.sync",
)  # fmt: skip
"""Checks of every group."""


def fixed() -> Checked:
    """64 nodes with findings written here, so that pictures stay as they are when checks are reworded."""
    nodes = tuple(f"gpu{number:03}" for number in range(1, 65))
    findings = [
        _ODD_FINDINGS.get((node, check)) or Finding(check, Verdict.PASS, "fine", node, (node,))
        for check in PASSING
        for node in nodes
    ]
    differ = Finding(
        "ib.pool-uniform", Verdict.FAIL, "7 ports on gpu007, 8 on the others", None, ("gpu007",),
        symptom="it hangs", explained_by="ib.port-state",
    )  # fmt: skip
    same = Finding("gpu.same-model", Verdict.PASS, "H100 everywhere")
    return Checked(Report(nodes, (*findings, differ, same)), {})


def _wrong(node: str, check: str, message: str, verdict: Verdict = Verdict.FAIL, **more: str) -> Finding:
    evidence = (Evidence(f"/sys/class/{check}", "1: DOWN"),)
    return Finding(
        check, verdict, message, node, (node,), evidence, "half the bandwidth", "look at the cable", **more
    )


_ODD_FINDINGS = {
    (finding.node, finding.id): finding
    for finding in (
        _wrong("gpu007", "ib.port-state", "mlx5_3:1 is DOWN (Polling)"),
        _wrong("gpu020", "ib.subnet-manager", "no subnet manager reached mlx5_0:1"),
        _wrong("gpu020", "ib.port-state", "mlx5_0:1 is INIT", explained_by="ib.subnet-manager"),
        _wrong("gpu033", "gpu.driver", "the driver is 570.86, the library 570.124"),
        _wrong("gpu041", "os.nofile", "soft limit 1024", Verdict.WARN),
        _wrong("gpu042", "os.nofile", "soft limit 1024", Verdict.WARN),
        _wrong("gpu050", "net.hostname", "gpu050 is 127.0.1.1", handled_by="GLOO_SOCKET_IFNAME"),
        Finding("clock.sync", Verdict.SKIP, "timedatectl is not there", "gpu051", ("gpu051",)),
    )
}
