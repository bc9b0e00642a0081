"""What a check says: a verdict, a message, and the evidence it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

EVIDENCE_LIMIT = 400
"""Characters of one raw value that are kept: enough for what a person compares by eye."""


FOLLOWS, HANDLED = "follows", "handled"
"""Beside the verdicts: what a finding is called that is no reason of its own (`Finding.word`)."""


class Verdict(StrEnum):
    """What a check came to."""

    PASS = "pass"
    WARN = "warn"
    """It will be slower, or is fragile."""
    FAIL = "fail"
    """The run would break, hang, or quietly use another transport."""
    SKIP = "skip"
    """It cannot be known here, or does not apply. Never taken for a pass."""

    @property
    def severity(self) -> int:
        """For sorting: the worst is the greatest."""
        return _SEVERITY[self]


_SEVERITY = {Verdict.SKIP: 0, Verdict.PASS: 1, Verdict.WARN: 2, Verdict.FAIL: 3}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; of none it is skip."""
    return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.SKIP)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One raw value that a verdict rests on."""

    source: str
    """The path that was read, the command that was run, or the call that was made; with the node's name in
    front (`n1: /sys/...`) where several nodes' values stand side by side."""
    value: str
    """As it was read, shortened."""

    @classmethod
    def of(cls, source: str, value: object) -> Evidence:
        """A value that may be missing or long."""
        text = "not there" if value is None else str(value).strip()
        return cls(source, text if len(text) <= EVIDENCE_LIMIT else text[: EVIDENCE_LIMIT - 3] + "...")

    def on(self, node: str) -> Evidence:
        """The same with the node's name in front."""
        return Evidence(f"{node}: {self.source}", self.value)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check function returns for one node, or for the pool."""

    verdict: Verdict
    message: str
    """One line that stands alone: what was found, where, and what it should be."""
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""
    """What to do; empty: the check's own words hold."""
    nodes: tuple[str, ...] = ()
    """Of a pool's outcome: the nodes that are to blame, or that differ; empty: all alike."""
    explained_by: tuple[str, ...] = ()
    """Checks whose fail on the same nodes is the cause of this outcome, beside those the check names."""
    symptom: str = ""
    """What a run would show; empty: the check's own words hold."""


def passed(message: str, *evidence: Evidence, nodes: Iterable[str] = ()) -> Outcome:
    """All is well."""
    return Outcome(Verdict.PASS, message, evidence, nodes=tuple(nodes))


def warned(message: str, *evidence: Evidence, fix: str = "", nodes: Iterable[str] = ()) -> Outcome:
    """Slower or fragile."""
    return Outcome(Verdict.WARN, message, evidence, fix, tuple(nodes))


def failed(message: str, *evidence: Evidence, fix: str = "", nodes: Iterable[str] = ()) -> Outcome:
    """The run would break, hang, or quietly use another transport."""
    return Outcome(Verdict.FAIL, message, evidence, fix, tuple(nodes))


def skipped(message: str, *evidence: Evidence, nodes: Iterable[str] = ()) -> Outcome:
    """It cannot be known, or does not apply; the message says which."""
    return Outcome(Verdict.SKIP, message, evidence, nodes=tuple(nodes))


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's verdict on one node, or on the pool."""

    id: str
    verdict: Verdict
    message: str
    node: str | None = None
    """None: it is about the pool as a whole."""
    nodes: tuple[str, ...] = ()
    """The nodes it is about: the one above, or those of the pool that are to blame or differ."""
    evidence: tuple[Evidence, ...] = ()
    symptom: str = ""
    """What a person would have seen in the run's logs instead."""
    fix: str = ""
    explained_by: str = ""
    """The id of another finding on the same nodes that is the cause of this one; empty: it is its own."""
    handled_by: str = ""
    """The variable that rankdeck sets against it, so that it does not stop a launch; empty: none."""

    @property
    def stops(self) -> bool:
        """True: it is a reason of its own not to launch."""
        return self.verdict is Verdict.FAIL and not self.explained_by and not self.handled_by

    @property
    def word(self) -> str:
        """How it counts: its verdict, or that it follows from another, or is handled by a variable."""
        if self.explained_by:
            return FOLLOWS
        return HANDLED if self.handled_by else self.verdict.value

    def to_json(self) -> dict[str, Any]:
        """The shape printed by `rankdeck check --json` and recorded as findings.json."""
        shape: dict[str, Any] = {
            "id": self.id,
            "verdict": self.verdict.value,
            "message": self.message,
            "evidence": [{"source": each.source, "value": each.value} for each in self.evidence],
            "symptom": self.symptom,
            "fix": self.fix,
            "explained_by": self.explained_by,
            "handled_by": self.handled_by,
        }
        if self.node is None:
            shape["nodes"] = list(self.nodes)
        return shape
