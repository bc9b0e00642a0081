"""From a pool's readings to findings: every check on every node and on the pool, each cause told once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankdeck_backends.preflight.catalogue import CHECKS
from rankdeck_backends.preflight.check import Check
from rankdeck_backends.preflight.finding import Finding, Outcome, Verdict, worst
from rankdeck_backends.preflight.subject import Asked, ProbedNode, ProbedPool
from rankdeck_profiles.readings import Readings


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found in a pool."""

    nodes: tuple[str, ...]
    findings: tuple[Finding, ...]
    """By check in the catalogue's order; the nodes' before the pool's."""

    @property
    def verdict(self) -> Verdict:
        """The worst that is not handled; pass where nothing else was found."""
        counted = [each.verdict for each in self.findings if not each.handled_by]
        return max(worst(counted), Verdict.PASS, key=lambda verdict: verdict.severity)

    @property
    def stopping(self) -> tuple[Finding, ...]:
        """The reasons not to launch, each cause once."""
        return tuple(finding for finding in self.findings if finding.stops)

    @property
    def blocked(self) -> bool:
        """True: a launch is refused unless the user says otherwise."""
        return bool(self.stopping)

    def on(self, node: str) -> tuple[Finding, ...]:
        """One node's own findings."""
        return tuple(finding for finding in self.findings if finding.node == node)

    @property
    def of_pool(self) -> tuple[Finding, ...]:
        """The findings about the pool as a whole."""
        return tuple(finding for finding in self.findings if finding.node is None)

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck check --json`."""
        return {
            "verdict": self.verdict.value,
            "nodes": [
                {"node": node, "findings": [finding.to_json() for finding in self.on(node)]}
                for node in self.nodes
            ],
            "pool_findings": [finding.to_json() for finding in self.of_pool],
            "blocked": self.blocked,
        }


def judge(
    readings: Mapping[str, Readings], asked: Asked | None = None, *, checks: Sequence[Check] = CHECKS
) -> Report:
    """Apply the checks to what was read on a pool's nodes.

    Args:
        readings: by node, in the pool's order: the first is the head node.
        asked: what is to be run there.
        checks: those to apply.
    """
    pool = ProbedPool(tuple(ProbedNode(name, found) for name, found in readings.items()), asked or Asked())
    findings: list[Finding] = []
    for check in checks:
        if check.node is not None:
            findings += [_finding(check, check.node(node, pool), node.name) for node in pool]
        if check.pool is not None and len(pool) > 1:
            findings.append(_finding(check, check.pool(pool), None))
    return Report(tuple(readings), tuple(_with_causes(findings, checks)))


def _finding(check: Check, outcome: Outcome, node: str | None) -> Finding:
    wrong = outcome.verdict in (Verdict.WARN, Verdict.FAIL)
    return Finding(
        id=check.id,
        verdict=outcome.verdict,
        message=outcome.message,
        node=node,
        nodes=(node,) if node is not None else outcome.nodes,
        evidence=outcome.evidence,
        symptom=check.symptom if wrong else "",
        fix=(outcome.fix or check.fix) if wrong else "",
    )


def _with_causes(findings: Sequence[Finding], checks: Sequence[Check]) -> Iterable[Finding]:
    """Marks each finding that another one on the same nodes explains."""
    causes = {check.id: check.explained_by for check in checks}
    failing: dict[str, set[str]] = {}
    for finding in findings:
        if finding.verdict is Verdict.FAIL:
            failing.setdefault(finding.id, set()).update(finding.nodes)
    for finding in findings:
        if finding.verdict in (Verdict.WARN, Verdict.FAIL):
            yield replace(finding, explained_by=_cause(finding, causes.get(finding.id, ()), failing))
        else:
            yield finding


def _cause(finding: Finding, causes: Iterable[str], failing: Mapping[str, set[str]]) -> str:
    """The first cause that holds on every node the finding is about; none of its own kind is one."""
    about = set(finding.nodes)
    return next((cause for cause in causes if about and about <= failing.get(cause, set())), "")
