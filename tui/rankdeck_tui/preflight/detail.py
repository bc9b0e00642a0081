"""What is known of the place under the cursor, in lines: message, evidence, symptom, fix, source. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.style import Style

from rankdeck_backends.preflight import catalogue
from rankdeck_backends.preflight.alike import Alike, alike
from rankdeck_backends.preflight.finding import Finding
from rankdeck_profiles.nodes import folded
from rankdeck_tui.look import Look, draw
from rankdeck_tui.look.draw import Part, Parts, cleaned
from rankdeck_tui.preflight import looks
from rankdeck_tui.preflight.model import Column, Mark, Matrix, Row, mark_of

EVIDENCE_SHOWN = 12
"""Raw values of one finding; the files that `w` writes have all."""
_LABEL = 7


def title_of(column: Column) -> str:
    """What the place is about: a check's id, or a group's name."""
    if column.single:
        return column.ids[0]
    name = column.group.value if column.group is not None else "other"
    return f"{name}, the rest" if column.heading else name


def lines_of(found: Matrix, row: Row, column: Column, look: Look, width: int) -> list[Parts]:
    """All there is to say of one place.

    Args:
        found: the matrix.
        row: where the cursor is.
        column: likewise.
        look: inks and glyphs.
        width: cells of a line.
    """
    findings = found.cell(row, column).findings
    entries = sorted(alike(findings), key=lambda each: -mark_of(each.finding).weight)
    if not entries:
        about = "the pool" if row.of_pool else row.name
        return [[(f"Nothing here is asked of {about}.", look.ink.dim)]]
    if column.single:
        return _check(column.ids[0], entries, row, look, width)
    told = [each for each in entries if mark_of(each.finding).notable]
    lines: list[Parts] = []
    for entry in told:
        lines += [*_head(entry, row, look, width, named=True), *_message(entry.finding, look, width)]
    lines += _in_short("passed", Mark.PASS, entries, look, width)
    for entry in entries:
        if mark_of(entry.finding) is Mark.SKIP:
            text = f"{entry.finding.id}: {entry.finding.message}"
            head = looks.shape(Mark.SKIP, look) + " "
            lines += _wrapped(text, head, look.ink.dim, look.ink.dim, width)
    return lines


def _check(check_id: str, entries: list[Alike], row: Row, look: Look, width: int) -> list[Parts]:
    ink = look.ink
    check = catalogue.find(check_id)
    lines: list[Parts] = []
    if check is not None:
        lines += _wrapped(check.title, "", ink.strong, ink.strong, width)
        lines.append([("", ink.text)])
    for entry in entries:
        finding = entry.finding
        lines += _head(entry, row, look, width, named=False)
        lines += _message(finding, look, width)
        lines += _evidence(finding, entry, look, width)
        lines += _labelled("else", finding.symptom, look, width)
        lines += _labelled("fix", finding.fix, look, width)
        lines.append([("", ink.text)])
    if check is not None:
        for label, text in (("reads", check.reads), ("rule", check.rule), ("source", check.source)):
            lines += _labelled(label, text, look, width, quiet=True)
    return lines


def _head(entry: Alike, row: Row, look: Look, width: int, *, named: bool) -> list[Parts]:
    ink = look.ink
    mark = mark_of(entry.finding)
    parts: list[Part] = [(f"{looks.shape(mark, look)} {looks.word(mark)}", looks.style(mark, look))]
    if named:
        parts.append((f"  {entry.finding.id}", ink.strong))
    lines: list[Parts] = [parts]
    if entry.nodes and (row.of_pool or entry.nodes != row.nodes or not named):
        nodes = f"  {folded(entry.nodes)}"
        if draw.measure(parts) + draw.width_of(nodes) <= width:
            parts.append((nodes, ink.accent))
        else:
            lines += _wrapped(nodes.strip(), "  ", ink.accent, ink.accent, width)
    if entry.finding.explained_by:
        lines += _wrapped(f"follows from {entry.finding.explained_by}", "  ", ink.lost, ink.lost, width)
    if entry.finding.handled_by:
        text = f"handled: {entry.finding.handled_by} is set for it"
        lines += _wrapped(text, "  ", ink.accent, ink.accent, width)
    return lines


def _message(finding: Finding, look: Look, width: int) -> list[Parts]:
    ink = look.ink
    return _wrapped(finding.message, "  ", ink.text, ink.text, width)


def _evidence(finding: Finding, entry: Alike, look: Look, width: int) -> list[Parts]:
    ink = look.ink
    lines: list[Parts] = []
    for each in finding.evidence[:EVIDENCE_SHOWN]:
        lines += _labelled("read", f"{each.source}: {each.value}", look, width)
    left = len(finding.evidence) - EVIDENCE_SHOWN
    if left > 0:
        lines.append([(" " * (_LABEL + 2) + f"and {left} more", ink.dim)])
    if finding.evidence and len(entry.nodes) > 1 and not entry.of_pool:
        lines.append([(" " * (_LABEL + 2) + f"(on {entry.nodes[0]})", ink.dim)])
    return lines


def _labelled(label: str, text: str, look: Look, width: int, *, quiet: bool = False) -> list[Parts]:
    ink = look.ink
    if not text:
        return []
    return _wrapped(text, f"  {label:{_LABEL}}", ink.dim, ink.dim if quiet else ink.text, width)


def _in_short(label: str, mark: Mark, entries: Iterable[Alike], look: Look, width: int) -> list[Parts]:
    ids = list(dict.fromkeys(each.finding.id for each in entries if mark_of(each.finding) is mark))
    if not ids:
        return []
    head = looks.shape(mark, look) + " "
    return _wrapped(f"{label}: {', '.join(ids)}", head, looks.style(mark, look), look.ink.dim, width)


def _wrapped(text: str, head: str, head_style: Style, style: Style, width: int) -> list[Parts]:
    """Text in lines of at most `width` cells, with a hanging indent under `head`; long words are broken."""
    room = max(16, width - draw.width_of(head))
    rows: list[str] = []
    for paragraph in text.splitlines() or [""]:
        rows += textwrap.wrap(cleaned(paragraph), room, break_on_hyphens=False) or [""]
    blank = " " * draw.width_of(head)
    return [[(blank if index else head, head_style), (row, style)] for index, row in enumerate(rows)]
