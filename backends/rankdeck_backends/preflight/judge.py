"""From a pool's readings to findings: every check on every node and on the pool, each cause told once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankdeck_backends.preflight.catalogue import CHECKS
from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.finding import Finding, Outcome, Verdict, skipped, worst
from rankdeck_backends.preflight.needs import seen_as_need
from rankdeck_backends.preflight.subject import Asked, ProbedNode, ProbedPool
from rankdeck_profiles.fabric.rules import FabricVariables, compute
from rankdeck_profiles.masking import shown
from rankdeck_profiles.readings import Readings

_BETWEEN_MACHINES = (Group.FABRIC, Group.OFED, Group.GPUDIRECT)
"""What is only used between machines: a run on one of them does without."""

_ONE_MACHINE = skipped("all nodes are this machine")
_UNREACHED = skipped("the node could not be reached or looked at, so nothing was read there")


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found in a pool."""

    nodes: tuple[str, ...]
    findings: tuple[Finding, ...]
    """By check in the catalogue's order; the nodes' before the pool's."""
    variables: FabricVariables | None = None
    """What a launch would set on each node for its network; None: nothing, for a run on one node."""

    @property
    def verdict(self) -> Verdict:
        """The worst that is not handled; skip where all is well but for nodes of which nothing is known."""
        found = worst(each.verdict for each in self.findings if not each.handled_by)
        if found in (Verdict.WARN, Verdict.FAIL):
            return found
        return Verdict.SKIP if self.unknown or not self.nodes else Verdict.PASS

    @property
    def unknown(self) -> tuple[str, ...]:
        """The nodes on which no check came to a verdict: what was read says nothing of them."""
        known = {each.node for each in self.findings if each.verdict is not Verdict.SKIP}
        return tuple(node for node in self.nodes if node not in known)

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
            "env": self._env(),
            "keep": self._keep(),
            "notes": list(self.variables.notes) if self.variables else [],
            "blocked": self.blocked,
        }

    def _env(self) -> dict[str, Any]:
        found = self.variables.nodes if self.variables else {}
        return {
            node: {each.name: {"value": each.value, "why": each.why} for each in variables.settings}
            for node, variables in found.items()
        }

    def _keep(self) -> dict[str, Any]:
        found = self.variables.nodes if self.variables else {}
        return {
            node: {
                each.name: {"value": shown(each.name, each.value), "source": each.source}
                for each in variables.keep
            }
            for node, variables in found.items()
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
    wish = asked or Asked()
    nodes = (ProbedNode(name, found, wish.gpus_of.get(name)) for name, found in readings.items())
    everyone = ProbedPool(tuple(nodes), wish)
    answered = tuple(node for node in everyone if node.reached)
    reached = replace(everyone, nodes=answered, unread=len(everyone) - len(answered))
    variables = _variables(reached)
    findings: list[Finding] = []
    for check in checks:
        pool = everyone if check.group is Group.WIRING else reached
        if check.node is not None:
            for node in everyone:
                known = node.reached or pool is everyone
                outcome = check.node(node, pool) if known else _UNREACHED
                findings.append(_finding(check, _as_needed(check, outcome, everyone), node.name))
        if check.pool is not None and len(pool) > 1:
            alone = check.group in _BETWEEN_MACHINES and everyone.on_one_machine
            outcome = _ONE_MACHINE if alone else check.pool(pool)
            findings.append(_finding(check, _as_needed(check, outcome, everyone), None))
    by_id = {check.id: check for check in checks}
    explained = _with_causes(_lacking(finding, everyone) for finding in findings)
    handled = tuple(_handled(finding, by_id[finding.id], variables) for finding in explained)
    return Report(tuple(readings), handled, variables)


def _variables(pool: ProbedPool) -> FabricVariables | None:
    """What a launch would set; of a single recorded node, what it would for several such nodes.

    Of a node where no file was read and no command run nothing is claimed.
    """
    known = {node.name: node.fabric for node in pool if node.readings.files or node.readings.commands}
    if not known or pool.on_one_machine:
        return None
    return compute(
        known,
        framework=pool.asked.framework,
        addresses=pool.asked.addresses,
        interface=pool.asked.interface,
        profile_env=pool.asked.env,
        open_mpi=pool.asked.open_mpi,
    )


def _as_needed(check: Check, outcome: Outcome, pool: ProbedPool) -> Outcome:
    """A fail of something that this run does without is no reason to stop it."""
    why = _does_without(check.group, pool)
    if not why or outcome.verdict is not Verdict.FAIL:
        return outcome
    return replace(outcome, verdict=Verdict.WARN, message=f"{outcome.message} ({why})")


def _does_without(group: Group, pool: ProbedPool) -> str:
    """Why a run does without what a group of checks is about; nothing where it needs it, or may."""
    if group in _BETWEEN_MACHINES and pool.on_one_machine:
        return "a run on one machine does without"
    if group in _BETWEEN_MACHINES and pool.asked.communication == "gloo":
        return "gloo goes over TCP"  # torch's is built without its ibverbs transport
    if group is Group.GPU and not pool.asked.needs_gpus:
        return f"{pool.asked.communication} does without GPUs"
    return ""


def _finding(check: Check, outcome: Outcome, node: str | None) -> Finding:
    """A check's outcome as a finding; `explained_by` holds all possible causes, for `_with_causes`."""
    wrong = outcome.verdict in (Verdict.WARN, Verdict.FAIL)
    return Finding(
        id=check.id,
        verdict=outcome.verdict,
        message=outcome.message,
        node=node,
        nodes=(node,) if node is not None else outcome.nodes,
        evidence=outcome.evidence,
        symptom=(outcome.symptom or check.symptom) if wrong else "",
        fix=(outcome.fix or check.fix) if wrong else "",
        explained_by=" ".join((*check.explained_by, *outcome.explained_by)) if wrong else "",
    )


def _lacking(finding: Finding, pool: ProbedPool) -> Finding:
    """Names run.needs as a possible cause where the nodes lack what the check sees, too."""
    about = [node for node in pool if node.name in finding.nodes]
    wrong = finding.verdict in (Verdict.WARN, Verdict.FAIL)
    if not wrong or not all(seen_as_need(node.readings, finding.id) for node in about):
        return finding
    return replace(finding, explained_by=f"run.needs {finding.explained_by}")


def _with_causes(judged: Iterable[Finding]) -> Iterable[Finding]:
    """Keeps of each finding's possible causes the first that holds on every node it is about."""
    findings = tuple(judged)
    failing: dict[str, set[str]] = {}
    for finding in findings:
        if finding.verdict is Verdict.FAIL:
            failing.setdefault(finding.id, set()).update(finding.nodes)
    for finding in findings:
        about = set(finding.nodes)
        held = (
            cause for cause in finding.explained_by.split() if about and about <= failing.get(cause, set())
        )
        yield replace(finding, explained_by=next(held, ""))


def _handled(finding: Finding, check: Check, variables: FabricVariables | None) -> Finding:
    """Marks a fail that a variable makes harmless on every node it is about."""
    if finding.verdict is not Verdict.FAIL or variables is None or not finding.nodes:
        return finding
    names = (
        name for name in check.handled_by if all(variables.handles(name, node) for node in finding.nodes)
    )
    return replace(finding, handled_by=next(names, ""))
