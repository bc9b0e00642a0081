"""A report as rows and columns: nodes alike are one row, a group of checks is one column till it is unfolded.

Pure: from a report and from what is unfolded to a frozen matrix. The worst comes first in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.check import Group
from rankdeck_backends.preflight.finding import Finding
from rankdeck_backends.preflight.judge import Report
from rankdeck_profiles.nodes import folded

POOL_ROW = "pool"
"""The name of the row with the findings about the pool as a whole."""


class Mark(StrEnum):
    """What a cell shows: a verdict, or why a bad one is no reason of its own."""

    FAIL = "fail"
    WARN = "warn"
    EFFECT = "effect"
    """It follows from another finding on the same nodes."""
    HANDLED = "handled"
    """rankdeck sets a variable against it."""
    PASS = "pass"
    SKIP = "skip"

    @property
    def weight(self) -> int:
        """The greatest is the worst."""
        return _WEIGHTS[self]

    @property
    def bad(self) -> bool:
        """Whether a person should look at it first."""
        return self in (Mark.FAIL, Mark.WARN)

    @property
    def notable(self) -> bool:
        """Whether there is more to say than that all is well, or that it is not known."""
        return self not in (Mark.PASS, Mark.SKIP)


_WEIGHTS = {Mark.SKIP: 0, Mark.PASS: 1, Mark.HANDLED: 2, Mark.EFFECT: 3, Mark.WARN: 4, Mark.FAIL: 5}


def mark_of(finding: Finding) -> Mark:
    """The mark of one finding."""
    if finding.explained_by:
        return Mark.EFFECT
    if finding.handled_by:
        return Mark.HANDLED
    return Mark(finding.verdict.value)


class Unfolded(Enum):
    """How much of a group is seen."""

    WRONG = 1
    """Its checks that say something somewhere, and one column for the rest, which pass or are not known."""
    ALL = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        key: stays the same while others fold and unfold.
        group: whose checks they are.
        ids: the checks it stands for.
        heading: `port-state`, `+7`; empty for a whole group.
    """

    key: str
    group: Group | None
    ids: tuple[str, ...]
    heading: str = ""

    @property
    def single(self) -> bool:
        """True: it stands for one check."""
        return bool(self.heading) and not self.heading.startswith("+")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: nodes whose verdicts are alike, or the pool."""

    name: str
    nodes: tuple[str, ...]
    of_pool: bool = False

    @property
    def key(self) -> str:
        """Stays the same while rows fold and unfold."""
        return self.nodes[0] if self.nodes else POOL_ROW


@dataclass(frozen=True, slots=True)
class Cell:
    """What one row has in one column."""

    mark: Mark | None
    """The worst; None: no check of the column looks at this row."""
    checks: int = 0
    """Of how many checks that is the mark."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """A report, folded and unfolded in some way."""

    report: Report
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    _by_place: Mapping[tuple[str | None, str], Sequence[Finding]] = field(repr=False)

    def cell(self, row: Row, column: Column) -> Cell:
        """The findings at one place."""
        names: Iterable[str | None] = (None,) if row.of_pool else row.nodes
        all_here = (
            finding
            for check in column.ids
            for name in names
            for finding in self._by_place.get((name, check), ())
        )
        found = tuple(
            {id(finding): finding for finding in all_here}.values()
        )  # a pair is found at both nodes
        if not found:
            return Cell(None)
        worst = max((mark_of(finding) for finding in found), key=lambda mark: mark.weight)
        return Cell(worst, len({each.id for each in found if mark_of(each) is worst}), found)


def matrix(
    report: Report, groups: Mapping[Group | None, Unfolded], nodes: frozenset[str] = frozenset()
) -> Matrix:
    """Fold a report.

    Args:
        report: what the checks found.
        groups: those that are unfolded, and how far.
        nodes: the first nodes of rows that are unfolded to single nodes.
    """
    by_place: dict[tuple[str | None, str], list[Finding]] = {}
    for finding in report.findings:
        for node in _places(report, finding):
            by_place.setdefault((node, finding.id), []).append(finding)
    return Matrix(report, _rows(report, nodes), _columns(report, groups), by_place)


def reasons(report: Report) -> tuple[Group | None, ...]:
    """The groups with a reason not to launch."""
    return tuple(dict.fromkeys(group_of(finding.id) for finding in report.stopping))


def group_of(check_id: str) -> Group | None:
    """A check's group; None for one that the catalogue does not have (a report of another version)."""
    check = catalogue.find(check_id)
    return check.group if check is not None else None


def _places(report: Report, finding: Finding) -> tuple[str | None, ...]:
    """The rows that a finding stands in: its node's, both of a pair that was tried, or the pool's.

    What is wrong with a few of the pool's nodes, compared with the others, stands in their rows, too.
    """
    if finding.node is not None:
        return (finding.node,)
    if group_of(finding.id) is Group.ACTIVE:
        return finding.nodes
    odd = finding.nodes if mark_of(finding).notable and len(finding.nodes) < len(report.nodes) else ()
    return (None, *odd)


def _rows(report: Report, unfolded: frozenset[str]) -> tuple[Row, ...]:
    marks: dict[str, dict[str, Mark]] = {node: {} for node in report.nodes}
    of_pool = False
    for finding in report.findings:
        mark = mark_of(finding)
        for node in _places(report, finding):
            if node is None:
                of_pool = True
                continue
            known = marks.setdefault(node, {})
            known[finding.id] = max(mark, known.get(finding.id, mark), key=lambda each: each.weight)
    alike: dict[tuple[tuple[str, Mark], ...], list[str]] = {}
    for node, found in marks.items():
        alike.setdefault(tuple(found.items()), []).append(node)
    rows = []
    for said, names in alike.items():
        badness = _badness(mark for _, mark in said)
        together = [tuple(names)] if names[0] not in unfolded else [(name,) for name in names]
        rows += [(badness, Row(_name(each), each)) for each in together]
    rows.sort(key=lambda each: each[0])
    pool = [Row(POOL_ROW, (), of_pool=True)] if of_pool else []
    return (*pool, *(row for _, row in rows))


def _name(nodes: tuple[str, ...]) -> str:
    """`n7`; `60 x n[1-6,8-61]`: of a long range the count is what is seen first."""
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} x {folded(nodes)}"


def _badness(marks: Iterable[Mark]) -> tuple[int, int]:
    """For sorting: the worst is the least."""
    listed = list(marks)
    return -listed.count(Mark.FAIL), -listed.count(Mark.WARN)


def _columns(report: Report, groups: Mapping[Group | None, Unfolded]) -> tuple[Column, ...]:
    marks: dict[str, list[Mark]] = {}
    for finding in report.findings:
        marks.setdefault(finding.id, []).append(mark_of(finding))
    by_group: dict[Group | None, list[str]] = {}
    for check in marks:
        by_group.setdefault(group_of(check), []).append(check)
    order = [*Group, None]
    worst = {
        group: _badness(max(marks[check], key=lambda mark: mark.weight) for check in checks)
        for group, checks in by_group.items()
    }
    columns: list[Column] = []
    for group in sorted(by_group, key=lambda each: (worst[each], order.index(each))):
        columns += _of_group(group, by_group[group], marks, groups.get(group))
    return tuple(columns)


def _of_group(
    group: Group | None, checks: Sequence[str], marks: Mapping[str, Sequence[Mark]], how: Unfolded | None
) -> list[Column]:
    name = group.value if group is not None else "other"
    if how is None:
        return [Column(name, group, tuple(checks))]
    worst = {check: max(marks[check], key=lambda mark: mark.weight) for check in checks}
    by_weight = sorted(checks, key=lambda check: -worst[check].weight)
    shown = by_weight if how is Unfolded.ALL else [check for check in by_weight if worst[check].notable]
    rest = tuple(check for check in by_weight if check not in shown)
    columns = [Column(check, group, (check,), check.partition(".")[2] or check) for check in shown]
    if rest:
        columns.append(Column(f"{name}+", group, rest, f"+{len(rest)}"))
    return columns
