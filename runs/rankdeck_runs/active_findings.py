"""Verdicts on active tests: what was really used, and its speed against links and other pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdeck_backends.preflight.active import GOOD_SHARE, LINK_SHARE, MPI_PAIR, NCCL_PAIR
from rankdeck_backends.preflight.check import Check
from rankdeck_backends.preflight.finding import Evidence, Finding, Verdict
from rankdeck_profiles.fabric.rules import FabricVariables
from rankdeck_runs.active import ActiveTest, Measured, slow_ones
from rankdeck_runs.checking import Checked

_CHECKS = {ActiveTest.TORCH: NCCL_PAIR, ActiveTest.MPI: MPI_PAIR}


def with_measured(checked: Checked, test: ActiveTest, found: Sequence[Measured]) -> Checked:
    """What was checked, with a finding for each pair, in place of this test's earlier ones."""
    check, report = _CHECKS[test], checked.report
    slow = slow_ones(found)
    told = tuple(_finding(check, each, slow.get(each.pair), report.variables) for each in found)
    kept = tuple(finding for finding in report.findings if finding.id != check.id)
    measured = [each for each in checked.measured if each["id"] != check.id]
    measured += [{"id": check.id, **each.to_json()} for each in found]
    return replace(checked, report=replace(report, findings=(*kept, *told)), measured=tuple(measured))


def findings_of(checked: Checked, test: ActiveTest) -> tuple[Finding, ...]:
    """What the pairs came to."""
    return tuple(finding for finding in checked.report.findings if finding.id == _CHECKS[test].id)


def not_tried(found: Sequence[Measured]) -> dict[str, list[str]]:
    """Why pairs were not tried, with what to do about it -> their nodes: many pairs have one reason."""
    told: dict[str, list[str]] = {}
    for each in found:
        if not each.tried:
            told.setdefault(_why_not(each), []).extend(each.pair)
    return told


def _why_not(found: Measured) -> str:
    return found.problem + (f" ({found.hint})" if found.hint else "")


def link_gbytes(variables: FabricVariables | None, pair: Sequence[str]) -> float | None:
    """What one port for data carries, in GB/s: the slower node's; None: not known."""
    if variables is None or variables.choice.kind is None:
        return None
    ports = [port for node in pair for port in variables.choice.ports.get(node, ())]
    rates = [port.gbits for port in ports if port.gbits]
    return min(rates) / 8 if rates else None


def _finding(
    check: Check, found: Measured, share: float | None, variables: FabricVariables | None
) -> Finding:
    rate = link_gbytes(variables, found.pair)
    where = " and ".join(found.pair)
    over = f" over {found.transport}" if found.transport else ", over what the libraries do not say"
    run = Evidence(
        f"run {found.run}" if found.run else "no run", found.problem or f"{found.gbytes_per_s} GB/s"
    )
    if not found.tried:
        message = f"{where}: not tried: {_why_not(found)}"
        return Finding(check.id, Verdict.SKIP, message, None, found.pair, (run,))
    if found.gbytes_per_s is None:
        logs = f"see `rankdeck logs {found.run}`" if found.run else ""
        fix = "; ".join(filter(None, (found.hint, logs))) or check.fix
        return _made(check, Verdict.FAIL, f"{where}: {found.problem}", found, run, fix)
    said = f"{where}: {found.gbytes_per_s:.2f} GB/s{over}"
    if "sockets" in found.transport:
        rate = None  # TCP is not measured against what RDMA carries
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
        return _made(check, Verdict.WARN, said, found, run, check.fix)
    return _made(check, Verdict.PASS, said, found, run, "")


def _made(check: Check, verdict: Verdict, message: str, found: Measured, run: Evidence, fix: str) -> Finding:
    symptom = "" if verdict is Verdict.PASS else check.symptom
    return Finding(check.id, verdict, message, None, found.pair, (run,), symptom, fix)
