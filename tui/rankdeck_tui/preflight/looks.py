"""Shape, letter and style of each mark, and the short names of groups."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from rankdeck_backends.preflight.check import Group
from rankdeck_tui.look import Look
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.preflight.model import Cell, Column, Mark

SHORT: Final = {
    Group.FABRIC: "fabric",
    Group.OFED: "OFED",
    Group.GPUDIRECT: "GDR",
    Group.GPU: "GPU",
    Group.SOFTWARE: "soft",
    Group.WIRING: "SSH",
    Group.SOCKETS: "net",
    Group.FILES: "files",
    Group.LIMITS: "limits",
    Group.CLOCK: "clock",
    Group.ACTIVE: "pairs",
}
"""Headings of folded groups: all of them and a node's name in 76 cells."""

_WORDS: Final = {
    Mark.FAIL: "fail",
    Mark.WARN: "warn",
    Mark.EFFECT: "follows",
    Mark.HANDLED: "handled",
    Mark.PASS: "pass",
    Mark.SKIP: "not known",
}


def shape(mark: Mark, look: Look) -> str:
    """One cell; no mark is told by its colour alone."""
    glyphs = look.glyphs
    return {
        Mark.FAIL: glyphs.failed,
        Mark.WARN: glyphs.warning,
        Mark.EFFECT: glyphs.wrap,
        Mark.HANDLED: glyphs.arrow,
        Mark.PASS: glyphs.succeeded,
        Mark.SKIP: glyphs.dot,
    }[mark]


def style(mark: Mark, look: Look) -> Style:
    """Its style."""
    ink = look.ink
    return {
        Mark.FAIL: ink.bad,
        Mark.WARN: ink.warn,
        Mark.EFFECT: ink.lost,
        Mark.HANDLED: ink.accent,
        Mark.PASS: ink.good,
        Mark.SKIP: ink.dim,
    }[mark]


def word(mark: Mark) -> str:
    """Its word."""
    return _WORDS[mark]


def cell_parts(cell: Cell, column: Column, look: Look) -> Parts:
    """What stands in a cell: the worst mark, and of how many checks, where it stands for several."""
    if cell.mark is None:
        return []
    text = shape(cell.mark, look)
    if not column.single and cell.mark not in (Mark.PASS, Mark.SKIP):
        text += f" {cell.checks}"
    return [(text, style(cell.mark, look))]


def legend(look: Look) -> list[Part]:
    """All marks with their words."""
    parts: list[Part] = []
    for mark in Mark:
        parts += [(shape(mark, look), style(mark, look)), (f" {word(mark)}  ", look.ink.dim)]
    return parts


def group_name(group: Group | None) -> str:
    """A group's heading."""
    return SHORT[group] if group is not None else "other"
