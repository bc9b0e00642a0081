"""A report as Markdown, to be pasted into a ticket: reasons first, with the raw values they rest on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.alike import Alike, alike
from rankdeck_backends.preflight.check import Group
from rankdeck_backends.preflight.finding import FOLLOWS, HANDLED, Evidence, Finding, Verdict
from rankdeck_backends.preflight.judge import Report
from rankdeck_backends.preflight.variables import variables_of
from rankdeck_profiles.nodes import folded

EVIDENCE_SHOWN = 12
"""Raw values under one finding; a pool-wide one may have hundreds."""

_SPECIAL = re.compile(r"[\\`*<>\[\]|~]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for markup. An underscore within a word is none (CommonMark 0.31, 6.2)."""
_AT_START = re.compile(r"^(\d{0,9})([.)#+-])(?=[#\s]|$)")
"""Headings and lists."""


def as_markdown(report: Report, *, title: str = "Preflight") -> str:
    """The report for people who were not there.

    Args:
        report: what the checks found.
        title: the first heading, such as the pool's name.

    Returns:
        CommonMark with tables, ending in a line break. Nothing that came from a node is markup in it.
    """
    wrong = [each for each in alike(report.findings) if each.finding.verdict in (Verdict.FAIL, Verdict.WARN)]
    stops = [each for each in wrong if each.finding.stops]
    effects = [each for each in wrong if each.finding.explained_by]
    handled = [each for each in wrong if each.finding.handled_by and not each.finding.explained_by]
    warnings = [each for each in wrong if each not in (*stops, *effects, *handled)]
    blocks = [f"# {plain(title)}: {report.verdict.value}", _summary(report, stops)]
    blocks += _section("Reasons not to launch", stops)
    blocks += _section("Warnings", warnings)
    blocks += _lines("Explained by the above", effects, "explained_by")
    blocks += _lines("Handled by what rankdeck sets", handled, "handled_by")
    blocks += _variables(report)
    blocks += ["## All checks", _table(report.findings), *_skipped(report.findings)]
    return "\n\n".join(blocks) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = " ".join(_printable(text).split())
    text = _SPECIAL.sub(lambda found: "\\" + found[0], text)
    return _AT_START.sub(r"\1\\\2", text)


def _summary(report: Report, stops: list[Alike]) -> str:
    nodes = (
        f"{_count(len(report.nodes), 'node')}: {_code(folded(report.nodes))}." if report.nodes else "No node."
    )
    if report.unknown:
        nodes += f" Nothing is known of {_code(folded(report.unknown))}."
    if not stops:
        return nodes if report.unknown else f"{nodes} Nothing stops a launch."
    return f"{nodes} {_count(len(stops), 'reason')} not to launch."


def _section(heading: str, entries: list[Alike]) -> list[str]:
    if not entries:
        return []
    return [f"## {heading}", *(block for entry in entries for block in _entry(entry))]


def _entry(entry: Alike) -> list[str]:
    finding = entry.finding
    blocks = [f"### `{finding.id}` {finding.verdict.value}: {_where(entry)}", plain(finding.message)]
    notes = [("Fix", finding.fix), ("Seen in a run that goes on all the same", finding.symptom)]
    points = [f"- {label}: {plain(text)}" for label, text in notes if text]
    if points:
        blocks.append("\n".join(points))
    if finding.evidence:
        if len(entry.nodes) > 1 and not entry.of_pool:
            blocks.append(f"Read on {_code(entry.nodes[0])}:")
        blocks.append(_fenced(finding.evidence))
    return blocks


def _where(entry: Alike) -> str:
    if entry.of_pool:
        return f"the pool, {_code(folded(entry.nodes))}" if entry.nodes else "the pool"
    return _code(folded(entry.nodes))


def _code(text: str) -> str:
    return "`" + _printable(text).replace("`", "'") + "`"


def _fenced(evidence: tuple[Evidence, ...]) -> str:
    rows = []
    for each in evidence[:EVIDENCE_SHOWN]:
        first, *rest = _printable(each.value).splitlines() or [""]
        rows += [f"{_printable(each.source)}: {first}", *("    " + line for line in rest)]
    if len(evidence) > EVIDENCE_SHOWN:
        rows.append(f"and {len(evidence) - EVIDENCE_SHOWN} more values")
    text = "\n".join(rows)
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _lines(heading: str, entries: list[Alike], by: str) -> list[str]:
    if not entries:
        return []
    rows = [
        f"- `{entry.finding.id}` {_where(entry)}: {plain(entry.finding.message)} "
        f"(`{getattr(entry.finding, by)}`)"
        for entry in entries
    ]
    return [f"## {heading}", "\n".join(rows)]


def _variables(report: Report) -> list[str]:
    """What a launch sets for the network, and what it leaves as it is."""
    told = variables_of(report)
    blocks = []
    for kept, heading in ((False, "Set by a launch for the network"), (True, "Set already, and kept")):
        rows = [
            f"- {_code(f'{each.name}={each.value}')} on {_code(folded(each.nodes))}: {plain(each.why)}"
            for each in told
            if each.kept is kept
        ]
        if rows:
            blocks += [f"## {heading}", "\n".join(rows)]
    return blocks


def _table(findings: Iterable[Finding]) -> str:
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        check = catalogue.find(finding.id)
        group = check.group.value if check else "other"
        counts.setdefault(group, Counter())[finding.word] += 1
    order = [group.value for group in Group]
    shown = sorted(counts, key=lambda group: order.index(group) if group in order else len(order))
    columns = (Verdict.FAIL, Verdict.WARN, FOLLOWS, HANDLED, Verdict.PASS, Verdict.SKIP)
    rows = ["| group | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    rows += [
        f"| {group} | " + " | ".join(str(counts[group][column]) for column in columns) + " |"
        for group in shown
    ]
    return "\n".join(rows)


def _skipped(findings: Iterable[Finding]) -> list[str]:
    """Why what was not judged was not: nobody is to take it for a pass."""
    entries = alike(finding for finding in findings if finding.verdict is Verdict.SKIP)
    if not entries:
        return []
    rows = [f"- `{each.finding.id}` {_where(each)}: {plain(each.finding.message)}" for each in entries]
    return ["## Not known, or not of use here", "\n".join(rows)]


def _printable(text: str) -> str:
    """Without what drives a terminal: a ticket's text is pasted into one sooner or later."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
