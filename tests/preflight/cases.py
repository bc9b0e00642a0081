"""A table's row: a small change to a healthy node, and what a check must say to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.healthy import healthy
from preflight.recordings import changed
from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.finding import Finding, Verdict
from rankdeck_backends.preflight.judge import judge
from rankdeck_backends.preflight.subject import Asked
from rankdeck_profiles.readings import Readings

ASKED = Asked(master_port=29400, slots=8)

Change = Callable[[Readings], Readings]


@dataclass(frozen=True)
class Case:
    """One row."""

    check: str
    verdict: str
    says: str = ""
    """Stands in the message."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    commands: Mapping[tuple[str, ...], str | int | None] = field(default_factory=dict)
    syscalls: Mapping[str, Any] = field(default_factory=dict)
    change: Change | None = None
    base: Change | None = None
    """Done to every node first."""
    asked: Asked = ASKED
    head: bool = True
    """Of one node: it is the head node."""
    everywhere: bool = False
    """The change is made on all three nodes of the pool, not on the second alone."""

    def __str__(self) -> str:
        return f"{self.check}-{self.verdict}-{self.says}"

    def applied(self, readings: Readings) -> Readings:
        """A node to which it was done."""
        readings = self.based(readings)
        if self.change is not None:
            readings = self.change(readings)
        return changed(readings, files=self.files, commands=self.commands, syscalls=self.syscalls)

    def based(self, readings: Readings) -> Readings:
        """A node to which it was not done."""
        return readings if self.base is None else self.base(readings)

    def on_node(self) -> Finding:
        """The finding of a node to which it was done, one of a pool of three."""
        return on_node(self.check, self.applied(healthy(1 if self.head else 2)), self.asked, head=self.head)

    def over_pool(self) -> Finding:
        """The finding about a pool of three, to whose second node (or all) it was done."""
        return over_pool(
            self.check,
            {
                f"n{number}": self.applied(healthy(number))
                if number == 2 or self.everywhere
                else self.based(healthy(number))
                for number in (1, 2, 3)
            },
            self.asked,
        )


def on_node(check_id: str, readings: Readings, asked: Asked = ASKED, *, head: bool = True) -> Finding:
    check = catalogue.find(check_id)
    assert check is not None, f"no check {check_id}"
    name = "n1" if head else "n2"
    nodes = {"n1": healthy(1), "n2": healthy(2), "n3": healthy(3), name: readings}
    (finding,) = judge(nodes, asked, checks=[check]).on(name)
    return finding


def over_pool(check_id: str, readings: Mapping[str, Readings], asked: Asked = ASKED) -> Finding:
    check = catalogue.find(check_id)
    assert check is not None, f"no check {check_id}"
    (finding,) = judge(readings, asked, checks=[check]).of_pool
    return finding


def holds(case: Case, finding: Finding) -> None:
    """The finding is what the row says, and is complete."""
    assert finding.verdict == case.verdict, finding.message
    assert case.says in finding.message
    assert finding.message
    assert "\n" not in finding.message
    if finding.verdict in (Verdict.WARN, Verdict.FAIL):
        assert finding.evidence, "a verdict without evidence"
        assert finding.symptom
        assert finding.fix
        assert finding.nodes, "nobody is to blame"
