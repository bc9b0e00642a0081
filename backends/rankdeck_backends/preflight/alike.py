"""Findings that say the same of several nodes, told once: 64 nodes with one fault are one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankdeck_backends.preflight.finding import Finding


@dataclass(frozen=True, slots=True)
class Alike:
    """What one check says in the same words of one or more nodes, or of the pool."""

    finding: Finding
    """The first of them; its evidence is the first node's."""
    nodes: tuple[str, ...]
    """The nodes it is said of; of the pool as a whole: those to blame, which may be none."""

    @property
    def of_pool(self) -> bool:
        """True: it is about the pool as a whole."""
        return self.finding.node is None


def alike(findings: Iterable[Finding]) -> tuple[Alike, ...]:
    """Findings of one check with the same verdict, message and remedy, together; in the order first met."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        said = (
            finding.id,
            finding.node is None,
            finding.verdict,
            finding.message,
            finding.fix,
            finding.explained_by,
            finding.handled_by,
        )
        found.setdefault(said, []).append(finding)
    return tuple(
        Alike(group[0], tuple(node for finding in group for node in finding.nodes))
        for group in found.values()
    )
