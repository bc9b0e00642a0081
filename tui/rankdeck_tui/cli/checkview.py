"""A preflight report as people read it: what is wrong first, equal findings of many nodes together."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from rankdeck_backends.preflight.alike import Alike, alike
from rankdeck_backends.preflight.check import Check
from rankdeck_backends.preflight.finding import FOLLOWS, HANDLED, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_backends.preflight.variables import variables_of
from rankdeck_profiles.nodes import folded
from rankdeck_tui import words
from rankdeck_tui.cli import output

_COLOURS = {
    Verdict.FAIL: output.RED,
    Verdict.WARN: output.YELLOW,
    Verdict.PASS: output.GREEN,
    Verdict.SKIP: output.GREY,
}
_COUNTED = {
    Verdict.FAIL: "failed",
    Verdict.WARN: "with a warning",
    FOLLOWS: "only following from others",
    HANDLED: "handled by what a launch sets",
    Verdict.PASS: "passed",
    Verdict.SKIP: "not known",
}
"""`Finding.word` -> how a total tells it; what counts most first."""
_EVIDENCE_SHOWN = 4
_NARROWEST, _WIDEST = 40, 100
_INDENT = " " * 6


def grouped(report: Report) -> list[Alike]:
    """A report's findings, equal ones of several nodes as one; what counts most first."""
    order = list(_COUNTED)
    return sorted(alike(report.findings), key=lambda group: order.index(group.finding.word))


def _note(finding: Finding) -> str:
    """Why it is no reason of its own to stop; empty: it is one, if it fails."""
    if finding.explained_by:
        return f"follows from {finding.explained_by}"
    return f"handled: {finding.handled_by} is set" if finding.handled_by else ""


def show(report: Report, title: str) -> None:
    """Prints a report to stdout: failing first, then warnings; what passed or is not known in short."""
    groups = grouped(report)
    told = [group for group in groups if group.finding.verdict in (Verdict.FAIL, Verdict.WARN)]
    for group in told:
        _print_group(group, len(report.nodes))
        print()
    for line in _short(groups, len(report.nodes)):
        print(line)
    _print_variables(report)
    _print_sum(report, title)


def _print_group(group: Alike, count: int) -> None:
    finding = group.finding
    colour = _COLOURS[finding.verdict if finding.word == finding.verdict else Verdict.SKIP]
    print(
        f"{output.paint(f'{finding.word:<5}', colour, sys.stdout)} {finding.id}  "
        f"{output.printable(_where(group, count))}"
    )
    _print_wrapped("", finding.message)
    if note := _note(finding):
        _print_wrapped("", f"({note})")
        if finding.handled_by and finding.fix:
            _print_wrapped("fix:  ", f"{finding.fix} (a launch does without)")
        return
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        _print_wrapped("read: ", f"{evidence.source}: {evidence.value}")
    left = len(finding.evidence) - _EVIDENCE_SHOWN
    if left > 0:
        _print_wrapped("", f"and {left} more (--json has all)")
    if finding.symptom:
        _print_wrapped("else: ", finding.symptom)
    if finding.fix:
        _print_wrapped("fix:  ", finding.fix)


def _print_wrapped(head: str, text: str) -> None:
    lines: list[str] = []
    for part in output.printable(text).splitlines() or [""]:
        lines += textwrap.wrap(
            part, _width() - len(_INDENT) - len(head), break_on_hyphens=False, break_long_words=True
        ) or [""]
    for number, line in enumerate(lines):
        start = output.paint(head, output.GREY, sys.stdout) if number == 0 and head else " " * len(head)
        print(f"{_INDENT}{start}{line}".rstrip())


def _where(group: Alike, count: int) -> str:
    if not group.nodes:
        return "the pool"
    if len(group.nodes) == count and count > 1:
        return f"all {count} nodes"
    return folded(group.nodes)


def _short(groups: Iterable[Alike], count: int) -> Iterator[str]:
    """The checks that could not be made or do not apply: their ids alone, or the rest would drown in them."""
    skipped: dict[str, list[str]] = {}
    for group in groups:
        if group.finding.verdict is Verdict.SKIP:
            skipped.setdefault(group.finding.id, []).extend(group.nodes)
    if not skipped:
        return
    told = [
        name if not nodes or len(set(nodes)) == count else f"{name} ({folded(nodes)})"
        for name, nodes in skipped.items()
    ]
    yield output.paint("not known here, or not asked (--json says why):", output.GREY, sys.stdout)
    yield from textwrap.wrap(
        output.printable(", ".join(told)),
        _width(),
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )
    yield ""


def _print_variables(report: Report) -> None:
    """What a launch sets for the network, and what it leaves as it is."""
    told = variables_of(report)
    for kept, heading in (
        (False, "a launch sets for the network:"),
        (True, "set already, and kept as it is:"),
    ):
        those = [each for each in told if each.kept is kept]
        if those:
            print(output.paint(heading, output.GREY, sys.stdout))
        for each in those:
            text = f"{each.name}={each.value}  {each.where(len(report.nodes))}: {each.why}"
            _print_lines(output.printable(text), "  ", " " * 6)
    for note in report.variables.notes if report.variables else ():
        _print_lines(output.printable(note), "  ", "  ")
    if told:
        print()


def _print_lines(text: str, first: str, following: str) -> None:
    for line in textwrap.wrap(
        text, _width(), initial_indent=first, subsequent_indent=following, break_on_hyphens=False
    ):
        print(line)


def _print_sum(report: Report, title: str) -> None:
    word = "NOT KNOWN" if report.verdict is Verdict.SKIP else report.verdict.upper()
    verdict = output.paint(word, _COLOURS[report.verdict], sys.stdout)
    print(f"{verdict}  {output.printable(title)}, {words.plural(len(report.nodes), 'node')}")
    if report.unknown:
        _print_wrapped("", f"nothing is known of {folded(report.unknown)}: no check came to a verdict there")
    _print_wrapped("", summary(report))


def summary(report: Report) -> str:
    """How many checks came to what, each check counted once by what counts most."""
    order = list(_COUNTED)
    most: dict[str, str] = {}
    for finding in report.findings:
        most[finding.id] = min(most.get(finding.id, order[-1]), finding.word, key=order.index)
    counts = Counter(most.values())
    return (
        ", ".join(f"{counts[word]} {told}" for word, told in _COUNTED.items() if counts[word]) or "no checks"
    )


def explanation(check: Check) -> str:
    """What a check reads, its rule, why, and where that is known from, wrapped for this terminal."""
    from rankdeck_backends.preflight.catalogue import explain

    lines = []
    for line in explain(check).splitlines():
        lines += textwrap.wrap(line, _width(), subsequent_indent=" " * 19, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def _width() -> int:
    """The terminal's width, within bounds; 80 where there is none."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (ValueError, OSError):
        columns = 80
    return min(max(columns, _NARROWEST), _WIDEST)
