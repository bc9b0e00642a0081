"""A report as rows and columns: what is folded, what comes first, what a cell says. No screen."""

from __future__ import annotations

import pytest

from rankdeck_backends.preflight.check import Group
from rankdeck_backends.preflight.finding import Evidence, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_tui.look import Look
from rankdeck_tui.look.glyphs import ASCII, UNICODE
from rankdeck_tui.look.ink import in_colour
from rankdeck_tui.preflight import detail, looks
from rankdeck_tui.preflight.model import Column, Mark, Matrix, Row, Unfolded, mark_of, matrix
from tui.checked import ODD, large

LOOK = Look(in_colour(), UNICODE)


def column(found: Matrix, key: str) -> Column:
    return next(each for each in found.columns if each.key == key)


def row(found: Matrix, key: str) -> Row:
    return next(each for each in found.rows if each.key == key)


def told(found: Matrix, at_row: Row, at_column: Column, width: int = 60) -> str:
    lines = detail.lines_of(found, at_row, at_column, LOOK, width)
    return "\n".join("".join(text for text, _ in parts) for parts in lines)


def test_64_nodes_are_as_many_rows_as_there_are_kinds_of_them() -> None:
    found = matrix(large().report, {})
    assert [each.name for each in found.rows[:1]] == ["pool"]
    assert {each.name for each in found.rows[1:4]} == set(ODD)
    healthy = found.rows[4]
    assert len(healthy.nodes) == 61
    assert healthy.name.startswith("61 x gpu[001-006,008-019,")
    assert len(found.rows) == 5


def test_every_finding_has_its_cell_however_it_is_folded() -> None:
    """A node's in one; one of the pool that names a few nodes in theirs, too."""
    report = large().report
    ways = ({}, dict.fromkeys(Group, Unfolded.WRONG), dict.fromkeys(Group, Unfolded.ALL))
    for groups in ways:
        for nodes in (frozenset(), frozenset(report.nodes)):
            found = matrix(report, groups, nodes)
            seen = [
                finding
                for each in found.rows
                for at in found.columns
                for finding in found.cell(each, at).findings
            ]
            assert set(map(id, seen)) == set(map(id, report.findings))
            for finding in report.findings:
                rows = [row for row in found.rows if set(row.nodes) & set(finding.nodes)]
                odd = finding.node is None and mark_of(finding).notable and len(finding.nodes) < 64
                assert seen.count(finding) in ({1 + len(rows)} if odd else {1})


def test_the_worst_groups_and_checks_come_first() -> None:
    found = matrix(large().report, {Group.FABRIC: Unfolded.WRONG})
    assert found.columns[0].group is Group.FABRIC
    assert found.columns[0].heading == "port-state"
    rest = next(each for each in found.columns if each.heading.startswith("+"))
    assert not rest.single
    marks = [found.cell(each, rest).mark for each in found.rows]
    assert set(marks) <= {Mark.PASS, Mark.SKIP, None}
    severity = [
        max((mark.weight for each in found.rows if (mark := found.cell(each, at).mark)), default=0)
        for at in found.columns
        if at.group is Group.FABRIC
    ]
    assert severity == sorted(severity, reverse=True)


def test_what_a_cell_shows() -> None:
    found = matrix(large().report, {Group.FABRIC: Unfolded.WRONG})
    port = column(found, "ib.port-state")
    assert found.cell(row(found, "gpu007"), port).mark is Mark.FAIL
    assert found.cell(row(found, "gpu020"), port).mark is Mark.EFFECT
    assert found.cell(row(found, "gpu001"), port).mark is Mark.PASS
    assert found.cell(row(found, "pool"), port).mark is None
    gpu = column(found, Group.GPU.value)
    assert looks.cell_parts(found.cell(row(found, "gpu033"), gpu), gpu, LOOK)[0][0] == "✗ 1"


def test_no_mark_is_told_by_colour_alone() -> None:
    for glyphs in (UNICODE, ASCII):
        shapes = [looks.shape(mark, Look(in_colour(), glyphs)) for mark in Mark]
        assert len(set(shapes)) == len(shapes)


def test_a_check_s_place_tells_all_of_it() -> None:
    found = matrix(large().report, {Group.FABRIC: Unfolded.WRONG})
    text = told(found, row(found, "gpu007"), column(found, "ib.port-state"))
    read = "/sys/class/infiniband/mlx5_3/ports/1/state: DOWN"
    for wanted in ("fail", "mlx5_3:1 is DOWN", read, "else", "fix", "check the cable", "rule", "source"):
        assert wanted in text, text
    text = told(found, row(found, "gpu020"), column(found, "ib.port-state"))
    assert "follows from ib.subnet-manager" in text


def test_a_group_s_place_tells_what_is_wrong_and_names_the_rest() -> None:
    found = matrix(large().report, {})
    text = told(found, row(found, "gpu007"), found.columns[0])
    assert text.startswith("✗ fail  ib.port-state\n  mlx5_3:1 is DOWN (Polling)")
    assert "✓ passed: ib.present" in text
    assert "· roce.gid: no active RoCE port" in text


@pytest.mark.parametrize("width", [20, 30, 44, 80])
def test_lines_fit_whatever_a_node_says(width: int) -> None:
    evil = "x" * 300 + "\x1b]52;c;AAAA\x07 [bold]\n" + "second"
    finding = Finding(
        "ib.port-state", Verdict.FAIL, evil, "n1", ("n1",), (Evidence("/sys/" + "y" * 200, evil),), "s", "f"
    )
    found = matrix(Report(("n1",), (finding,)), {Group.FABRIC: Unfolded.ALL})
    for parts in detail.lines_of(found, found.rows[0], found.columns[0], LOOK, width):
        text = "".join(part for part, _ in parts)
        assert "\x1b" not in text
        assert len(text) <= max(width, 26)


def test_a_report_of_another_version_is_shown_all_the_same() -> None:
    finding = Finding("new.check", Verdict.WARN, "what is this", "n1", ("n1",))
    found = matrix(Report(("n1",), (finding,)), {})
    assert looks.group_name(found.columns[0].group) == "other"
    assert "what is this" in told(found, found.rows[0], found.columns[0])


def test_no_findings_no_rows_of_a_pool() -> None:
    found = matrix(Report(("n1", "n2"), ()), {})
    assert found.columns == ()
    assert [each.name for each in found.rows] == ["2 x n[1-2]"]
