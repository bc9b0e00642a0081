"""The variables of a report as people read them: what a launch sets for the network, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankdeck_backends.preflight.judge import Report
from rankdeck_profiles.masking import shown
from rankdeck_profiles.nodes import folded


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable that has the same value on some nodes."""

    name: str
    value: str
    nodes: tuple[str, ...]
    why: str
    """Why it is set; where each node has a reason of its own, the first one's, which it names. Of one that
    is kept: where it comes from."""
    kept: bool
    """True: the nodes or the profile have it already, and it stays as it is."""

    def where(self, count: int) -> str:
        """The nodes in short, of so many in all."""
        return "all nodes" if len(self.nodes) == count else folded(self.nodes)


def variables_of(report: Report) -> tuple[Variable, ...]:
    """What a launch would set, then what it would keep; each value once, with its nodes."""
    found: dict[tuple[bool, str, str], dict[str, str]] = {}
    for node, each in (report.variables.nodes if report.variables else {}).items():
        told = [(False, setting.name, setting.value, setting.why) for setting in each.settings]
        told += [(True, kept.name, shown(kept.name, kept.value), f"from {kept.source}") for kept in each.keep]
        for is_kept, name, value, why in told:
            found.setdefault((is_kept, name, value), {})[node] = why
    ordered = sorted(found.items(), key=lambda item: item[0][0])
    return tuple(
        Variable(name, value, tuple(whys), _reason(whys), is_kept) for (is_kept, name, value), whys in ordered
    )


def _reason(whys: Mapping[str, str]) -> str:
    """One reason for all nodes that have it; else the first node's, and that it is this one's."""
    first, why = next(iter(whys.items()))
    return why if len(set(whys.values())) == 1 else f"each for its own reason; on {first}: {why}"
