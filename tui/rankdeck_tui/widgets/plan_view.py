"""A launch plan as lines: for one node and rank, everything that will be run and set, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from rankdeck_profiles import render, shell
from rankdeck_profiles.masking import shown
from rankdeck_profiles.plan import LaunchPlan, NodePlan
from rankdeck_profiles.rank_view import RankView, Variable, of_rank
from rankdeck_tui import words
from rankdeck_tui.look import Look, draw
from rankdeck_tui.look.draw import Part, Parts

LEAST_REASON = 24
"""Cells for reasons; where fewer are left beside the values, reasons stand below them."""
VALUE_WIDTH = 24
"""Values longer than this get a line of their own, so that reasons stay beside the others."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which node and which of its ranks is looked at."""

    node: int = 0
    """Index among the plan's nodes."""
    rank: int = 0
    """Index among that node's ranks."""

    def moved(self, plan: LaunchPlan, *, node: int = 0, rank: int = 0) -> Place:
        """Some nodes or ranks further; past a node's last rank comes the next node's first."""
        if node:
            return Place((self.node + node) % max(1, len(plan.nodes)), 0)
        ranks = len(plan.nodes[self.node].ranks) if self.node < len(plan.nodes) else 0
        if 0 <= self.rank + rank < ranks:
            return Place(self.node, self.rank + rank)
        other = (self.node + (1 if rank > 0 else -1)) % max(1, len(plan.nodes))
        last = max(0, len(plan.nodes[other].ranks) - 1)
        return Place(other, 0 if rank > 0 else last)

    def within(self, plan: LaunchPlan) -> Place:
        """This place, or the nearest one that the plan has."""
        node = max(0, min(self.node, len(plan.nodes) - 1))
        ranks = len(plan.nodes[node].ranks) if plan.nodes else 0
        return Place(node, max(0, min(self.rank, ranks - 1)))


def plan_lines(plan: LaunchPlan, place: Place, look: Look, width: int, *, asked: bool = False) -> list[Parts]:
    """The plan, as seen from one rank.

    Args:
        plan: what will run.
        place: node and rank looked at.
        look: inks and glyphs.
        width: cells of a line; long commands and reasons are wrapped to it.
        asked: the nodes were asked; a plan that still assumes something was made without their answers.
    """
    ink = look.ink
    dot: Part = (f" {look.glyphs.dot} ", ink.faint)
    lines: list[Parts] = [
        [(plan.framework, ink.strong), dot, (words.plural(plan.world_size, "rank"), ink.text),
         (" on ", ink.dim), (words.plural(len(plan.nodes), "node"), ink.text), dot,
         ("rank 0 listens on ", ink.dim),
         (plan.head.endpoint, ink.accent)],
    ]  # fmt: skip
    for text in plan.warnings:
        lines += wrapped(text, f"{look.glyphs.warning} ", ink.warn, ink.warn, look, width)
    if not plan.nodes:
        return lines
    node = plan.nodes[place.node]
    if not node.ranks:
        return [*lines, [("", ink.text)], [("No rank is on this node.", ink.dim)]]
    view = of_rank(plan, node, min(place.rank, len(node.ranks) - 1))
    lines.append([("", ink.text)])
    lines += _command(plan, node, view, look, width)
    for line in plan.setup:
        lines += wrapped(line, "first  ", ink.dim, ink.text, look, width)
    lines.append([("", ink.text)])
    whose = "of each rank here" if view.process and not view.process.fixed_ranks else f"of rank {view.rank}"
    lines.append([("Environment", ink.strong), (f"  {whose}, {len(view.env)} set", ink.dim)])
    lines += _variables(view.env, look, width)
    if view.also:
        lines += wrapped(", ".join(view.also), "  and  ", ink.dim, ink.dim, look, width)
    if view.launcher_env:
        lines.append([("", ink.text)])
        lines.append([("Environment", ink.strong), ("  of mpirun itself", ink.dim)])
        lines += _variables(view.launcher_env, look, width)
    for title, found in (("Removed", node.env_removed), ("Kept", node.env_kept)):
        if found:
            lines.append([("", ink.text)])
            lines.append([(title, ink.strong), (f"  {len(found)} of the login on {node.node}", ink.dim)])
            rows = [Variable(entry.name, shown(entry.name, entry.value), entry.why) for entry in found]
            lines += _variables(rows, look, width)
    if plan.assumed:
        lines.append([("", ink.text)])
        when = "  without the nodes' answers" if asked else "  until the nodes are asked"
        lines.append([("Assumed", ink.strong), (when, ink.dim)])
        for text in plan.assumed:
            lines += wrapped(text, "  ", ink.dim, ink.dim, look, width)
    return lines


def title_parts(plan: LaunchPlan, place: Place, look: Look) -> list[Part]:
    """Which node and rank is shown, for the pane's border."""
    ink = look.ink
    if not plan.nodes:
        return []
    node = plan.nodes[place.node]
    parts: list[Part] = [
        ("[ ] ", ink.key),
        (f"node {node.node}", ink.text),
        (f" {place.node + 1}/{len(plan.nodes)}", ink.dim),
    ]
    if node.ranks:
        index = min(place.rank, len(node.ranks) - 1)
        process = of_rank(plan, node, index).process
        fixed = process is None or process.fixed_ranks
        parts += [
            ("  < > ", ink.key),
            (f"rank {node.ranks[index]}" if fixed else f"local rank {index}", ink.text),
        ]
        if process is not None and process.role:
            parts.append((f" {process.role}", ink.dim))
    return parts


def _command(plan: LaunchPlan, node: NodePlan, view: RankView, look: Look, width: int) -> list[Parts]:
    ink = look.ink
    process = view.process
    if process is None:
        return [[("Nothing is started for this rank.", ink.dim)]]
    where = "" if view.starter == node.node else f"; it runs on node {view.starter}"
    what = f"{render.process_title(plan, process)}{where}, in {process.cwd}"
    lines = wrapped(what, "Command  ", ink.strong, ink.dim, look, width)
    current: list[Part] = [("$ ", ink.accent)]
    room = max(20, width - 4)
    used = 2
    for index, word in enumerate(process.argv):
        style = ink.dim if index < len(process.launcher) else ink.text
        text = shell.word(word)
        if used + len(text) + 1 > room and len(current) > 1:
            lines.append([*current, ("\\", ink.faint)])
            current, used = [("    ", ink.text)], 4
        for piece_start in range(0, max(1, len(text)), room - 6):
            piece = text[piece_start : piece_start + room - 6]
            if piece_start:
                lines.append(current)
                current, used = [("    ", ink.text)], 4
            current.append((piece, style))
            used += len(piece)
        current.append((" ", style))
        used += 1
    return [*lines, current]


def _variables(rows: Sequence[Variable], look: Look, width: int) -> list[Parts]:
    """Name, value and reason in columns; what is too long for its column goes on in the next line."""
    ink = look.ink
    names = max((len(row.name) for row in rows), default=0)
    values = max((len(row.value) for row in rows if len(row.value) <= VALUE_WIDTH), default=0)
    beside = 2 + names + 2 + values + 2
    room = width - beside
    if room < LEAST_REASON:  # a narrow screen: reasons below
        beside, room = 4, max(20, width - 4)
    lines: list[Parts] = []
    for row in rows:
        head: list[Part] = [("  ", ink.text), (draw.pad(row.name, names) + "  ", ink.accent)]
        reasons: list[Parts] = [
            [(" " * beside, ink.text), (text, ink.dim)] for text in _broken(row.why, room)
        ]
        if not row.why:
            reasons = []
        if beside > 4 and reasons and len(row.value) <= values:
            lines.append([*head, (row.value.ljust(values) + "  ", ink.text), reasons.pop(0)[1]])
        else:
            lines += _long_value(head, row.value, 2 + names + 2, look, width)
        lines += reasons
    return lines


def _long_value(head: Parts, value: str, indent: int, look: Look, width: int) -> list[Parts]:
    """A value that may need several lines: behind its name, or below it where there is little room."""
    ink = look.ink
    lines: list[Parts] = []
    if width - indent < min(len(value), LEAST_REASON):
        lines.append(head)
        head, indent = [(" " * 4, ink.text)], 4
    room = max(8, width - indent)
    for start in range(0, max(1, len(value)), room):
        lines.append([*head, (value[start : start + room], ink.text)])
        head = [(" " * indent, ink.text)]
    return lines


def remains_lines(remains: Sequence[tuple[str, str]], look: Look, width: int) -> list[Parts]:
    """What earlier runs left on nodes, with an empty line after it; nothing if there is nothing.

    Args:
        remains: node, and what is left there in words.
        look: colours and glyphs.
        width: cells of a line.
    """
    warn = look.ink.warn
    lines: list[Parts] = []
    for node, left in remains:
        lines += wrapped(f"{node}: {left}", f"{look.glyphs.warning} ", warn, warn, look, width)
    return [*lines, [("", look.ink.text)]] if lines else []


def wrapped(text: str, head: str, head_style: Style, style: Style, look: Look, width: int) -> list[Parts]:
    """Text broken at blanks, with a hanging indent under `head`."""
    room = max(20, width - len(head) - 2)
    rows = [row for paragraph in text.splitlines() or [""] for row in _broken(paragraph, room)]
    blank = " " * len(head)
    return [[(blank if index else head, head_style), (row, style)] for index, row in enumerate(rows)]


def _broken(text: str, room: int) -> list[str]:
    """Text broken at blanks into pieces of at most `room` characters (a longer word stays whole)."""
    rows = [""]
    for word in text.split(" "):
        if rows[-1] and len(rows[-1]) + 1 + len(word) > room:
            rows.append(word)
        else:
            rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
    return rows
