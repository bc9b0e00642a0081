"""Verdicts on active tests: what was really used, and its speed against links and other pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdeck_backends.preflight.finding import Evidence, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_profiles.fabric.rules import FabricVariables
from rankdeck_runs.active import GOOD_SHARE, ActiveTest, Measured, slow_ones

LINK_SHARE = 0.7
"""Of a port's rate: less over RDMA is a warning. A test of one rank a node uses one port at least."""
_IDS = {ActiveTest.TORCH: "bw.nccl-pair", ActiveTest.MPI: "bw.mpi-pair"}


def with_measured(report: Report, test: ActiveTest, found: Sequence[Measured]) -> Report:
    """The report with a finding for each pair behind its own."""
    slow = slow_ones(found)
    told = tuple(_finding(_IDS[test], each, slow.get(each.pair), report.variables) for each in found)
    return replace(report, findings=(*report.findings, *told))


def link_gbytes(variables: FabricVariables | None, pair: Sequence[str]) -> float | None:
    """What one port for data carries, in GB/s: the slower node's; None: not known."""
    if variables is None or variables.choice.kind is None:
        return None
    ports = [port for node in pair for port in variables.choice.ports.get(node, ())]
    rates = [port.gbits for port in ports if port.gbits]
    return min(rates) / 8 if rates else None


def _finding(check: str, found: Measured, share: float | None, variables: FabricVariables | None) -> Finding:
    rate = link_gbytes(variables, found.pair)
    where = " and ".join(found.pair)
    over = f" over {found.transport}" if found.transport else ", over what the libraries do not say"
    run = Evidence(
        f"run {found.run}" if found.run else "no run", found.problem or f"{found.gbytes_per_s} GB/s"
    )
    if found.gbytes_per_s is None:
        fix = f"see `rankdeck logs {found.run}`" if found.run else "see the other findings"
        return _made(check, Verdict.FAIL, f"{where}: {found.problem}", found, run, fix)
    said = f"{where}: {found.gbytes_per_s:.2f} GB/s{over}"
    if rate is not None:
        said += f"; a port carries {rate:.0f} GB/s"
    if found.fabric_unused:
        return _made(
            check, Verdict.FAIL, f"{said}; {found.fabric_unused}", found, run, "see ofed.* and sw.env"
        )
    if share is not None:
        said += f"; {share:.0%} of the pairs' median"
        fix = f"less than {GOOD_SHARE:.0%} is a node, cable or port of its own: try each node with another"
        return _made(check, Verdict.WARN, said, found, run, fix)
    if rate is not None and found.gbytes_per_s < LINK_SHARE * rate:
        fix = "see ib.rate, ib.errors, gdr.path, and gdr.affinity"
        return _made(check, Verdict.WARN, said, found, run, fix)
    return _made(check, Verdict.PASS, said, found, run, "")


def _made(check: str, verdict: Verdict, message: str, found: Measured, run: Evidence, fix: str) -> Finding:
    return Finding(check, verdict, message, None, found.pair, (run,), fix=fix)
