"""A launch plan as lines: for one node and rank, everything that will be run and set, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

from rankdeck_profiles import shell
from rankdeck_profiles.masking import shown
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process
from rankdeck_tui.look import Look, draw, words
from rankdeck_tui.look.draw import Part, Parts

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


def plan_lines(plan: LaunchPlan, place: Place, look: Look, width: int) -> list[Parts]:
    """The plan, as seen from one rank.

    Args:
        plan: what will run.
        place: node and rank looked at.
        look: inks and glyphs.
        width: cells of a line; long commands and reasons are wrapped to it.
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
    for text in plan.assumed:
        lines += wrapped(text, "assumed  ", ink.dim, ink.dim, look, width)
    if not plan.nodes:
        return lines
    node = plan.nodes[place.node]
    process = process_of(node, place)
    lines.append([("", ink.text)])
    lines += _command(plan, node, process, look, width)
    for line in plan.setup:
        lines += wrapped(line, "first  ", ink.dim, ink.text, look, width)
    lines.append([("", ink.text)])
    lines.append([("Environment", ink.strong), (f"  {len(process.env) if process else 0} set", ink.dim)])
    rows: list[tuple[str, str, str]] = []
    if process is not None:
        rows = [(name, shown(name, value), plan.reasons.get(name, "")) for name, value in process.env.items()]
    rows += [(name, "***", "from your shell; passed on, never recorded") for name in plan.env_from]
    lines += _variables(rows, look, width)
    if node.env_removed:
        lines.append([("", ink.text)])
        lines.append([("Removed", ink.strong), (f"  {len(node.env_removed)} found on {node.node}", ink.dim)])
        removed = [(entry.name, shown(entry.name, entry.value), entry.why) for entry in node.env_removed]
        lines += _variables(removed, look, width)
    return lines


def process_of(node: NodePlan, place: Place) -> Process | None:
    """The process that is, or starts, the rank looked at."""
    if not node.processes:
        return None
    if place.rank < len(node.ranks):
        rank = node.ranks[place.rank]
        for process in node.processes:
            if rank in process.ranks:
                return process
    return node.processes[0]


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
        parts += [("  < > ", ink.key), (f"rank {node.ranks[min(place.rank, len(node.ranks) - 1)]}", ink.text)]
    return parts


def _command(
    plan: LaunchPlan, node: NodePlan, process: Process | None, look: Look, width: int
) -> list[Parts]:
    ink = look.ink
    if process is None:
        return [[("Nothing is started on this node.", ink.dim)]]
    what = (
        f"for ranks {process.ranks[0]}-{process.ranks[-1]}"
        if len(process.ranks) > 1
        else f"for rank {process.ranks[0]}"
    )
    head: list[Part] = [("Command", ink.strong), (f"  {what}, in ", ink.dim), (process.cwd, ink.text)]
    lines: list[Parts] = [head]
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


def _variables(rows: list[tuple[str, str, str]], look: Look, width: int) -> list[Parts]:
    """Name, value and reason in columns; what is too long for its column goes on in the next line."""
    ink = look.ink
    names = max((len(name) for name, _, _ in rows), default=0)
    values = min(max((len(value) for _, value, _ in rows), default=0), VALUE_WIDTH)
    indent = 2 + names + 2 + values + 2
    lines: list[Parts] = []
    for name, value, why in rows:
        head: list[Part] = [("  ", ink.text), (draw.pad(name, names) + "  ", ink.accent)]
        if len(value) > values:
            lines.append([*head, (value, ink.text)])
            head = [(" " * (indent - 2), ink.text)]
        else:
            head.append((value.ljust(values), ink.text))
        reasons = _broken(why, max(20, width - indent)) if why else [""]
        lines.append([*head, ("  ", ink.text), (reasons[0], ink.dim)])
        lines += [[(" " * indent, ink.text), (rest, ink.dim)] for rest in reasons[1:]]
    return lines


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
