"""The matrix as a pane: rows of nodes, columns of checks, one cursor."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip

from rankdeck_backends.preflight.check import Group
from rankdeck_backends.preflight.judge import Report
from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.preflight import looks
from rankdeck_tui.preflight.model import (
    Column,
    Matrix,
    Row,
    Unfolded,
    mark_of,
    matrix,
    reasons,
)
from rankdeck_tui.widgets.painted import Pane

NAMES_MOST = 16
"""Cells of the nodes' names at most: a range that is longer is cut, and stands whole beside the matrix."""
NAMES_LEAST = 8
HEADINGS = 2
"""Rows above the first: the groups, and within those that are unfolded the checks."""


class CheckMatrix(Pane, can_focus=True):
    """Nodes and checks. The owner hands over a report; folding and the cursor are the pane's own."""

    PANE = "matrix"
    """What help calls it."""

    class Moved(Message):
        """The cursor is at another place, or what is there has changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "unfold",
            "unfold",
            tooltip="Show the checks of this group, or hide them",
            id="matrix.unfold",
        ),
        Binding(
            "e", "next_bad", "next problem", tooltip="To the next finding that is bad", id="matrix.next_bad"
        ),
        Binding(
            "space", "nodes", "nodes", tooltip="One row a node, or nodes alike in one", id="matrix.nodes"
        ),
        Binding("a", "all", "all", tooltip="Show every check, or only groups", id="matrix.all"),
        Binding("up,k", "step(-1, 0)", "Up", show=False, id="matrix.up"),
        Binding("down,j", "step(1, 0)", "Down", show=False, id="matrix.down"),
        Binding("left,h", "step(0, -1)", "Left", show=False, id="matrix.left"),
        Binding("right,l", "step(0, 1)", "Right", show=False, id="matrix.right"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="matrix.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="matrix.page_down"),
        Binding("home", "edge(0, -1)", "First column", show=False, id="matrix.first_column"),
        Binding("end", "edge(0, 1)", "Last column", show=False, id="matrix.last_column"),
        Binding("g", "edge(-1, 0)", "First row", show=False, id="matrix.first"),
        Binding("G", "edge(1, 0)", "Last row", show=False, id="matrix.last"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.matrix: Matrix | None = None
        self._groups: dict[Group | None, Unfolded] = {}
        self._single: frozenset[str] = frozenset()
        self._row = 0
        self._column = 0
        self._top = 0
        self._left = 0
        self._fresh = False

    @property
    def place(self) -> tuple[Row, Column] | None:
        """Where the cursor is; None: there is nothing."""
        found = self.matrix
        if found is None or not found.rows or not found.columns:
            return None
        return found.rows[self._row], found.columns[self._column]

    def show(self, report: Report) -> None:
        """Show a report: the first with its reasons not to launch unfolded, a later one as the last."""
        self._fresh = self._fresh or self.matrix is None
        self._fold(report)
        self._unfold_what_fits()

    def _unfold_what_fits(self) -> None:
        """Once, as soon as the width is known: the groups with reasons not to launch, where there is room."""
        if self.matrix is None or not self._fresh or not self.size.width:
            return
        self._fresh = False
        room = self.size.width - 4 - self._names_width(self.matrix, self.size.width)
        for group in reasons(self.matrix.report):
            groups = {**self._groups, group: Unfolded.WRONG}
            if sum(map(_width, matrix(self.matrix.report, groups).columns)) <= room:
                self._groups = groups
        self._fold(self.matrix.report)
        self._go(*(self._bad_places()[:1] or [(0, 0)])[0])

    @property
    def rows_wanted(self) -> int:
        """Rows of the pane that show all."""
        return len(self.matrix.rows) + HEADINGS + 3 if self.matrix is not None else 0

    def on_resize(self) -> None:
        """A new size is a new picture, and the first one says what fits."""
        self.repaint()
        self._unfold_what_fits()

    def _fold(self, report: Report) -> None:
        """Fold anew; the cursor stays at its row and column, or near them."""
        place = self.place
        self.matrix = found = matrix(report, self._groups, self._single)
        if place is not None:
            row, column = place
            self._row = _index([each.key for each in found.rows], row.key, self._row)
            self._column = self._nearest(found, found.rows[self._row], column)
        self.repaint()
        self.post_message(self.Moved())

    def _nearest(self, found: Matrix, row: Row, column: Column) -> int:
        """The same column; else that of its group in which the row has the most to say."""
        keys = [each.key for each in found.columns]
        group = [index for index, each in enumerate(found.columns) if each.group is column.group]
        if column.key in keys or not group:
            return _index(keys, column.key, self._column)

        def weight(index: int) -> int:
            mark = found.cell(row, found.columns[index]).mark
            return mark.weight if mark is not None else -1

        return max(group, key=weight)

    # Painting.

    def title_parts(self) -> Parts:
        """How many nodes and checks."""
        if self.matrix is None:
            return [("Checks", self.title_style())]
        report = self.matrix.report
        checks = len({finding.id for finding in report.findings})
        count = f" {len(report.nodes)} x {checks}"
        return [("Nodes x checks", self.title_style()), (count, self.look.ink.dim)]

    def thumb(self, height: int) -> tuple[int, int] | None:
        """By rows."""
        rows = len(self.matrix.rows) if self.matrix else 0
        return draw.thumb_of(self._top, max(1, height - HEADINGS), rows, height)

    def body(self, width: int, height: int) -> list[Strip]:
        """Headings, and the rows and columns in view."""
        found = self.matrix
        if found is None or not found.rows or not found.columns:
            return [draw.line([("  No check was made.", self.look.ink.dim)], width, self.look.ink.text)]
        names = self._names_width(found, width)
        shown = max(1, height - HEADINGS)
        self._top = max(self._row - shown + 1, min(self._top, self._row, max(0, len(found.rows) - shown)))
        columns = self._columns_in_view(found, width - names - 2)
        strips = self._headings(found, columns, names, width)
        rows = range(self._top, min(self._top + shown, len(found.rows)))
        strips += [self._painted(found, index, columns, names, width) for index in rows]
        if len(strips) + 2 <= height:
            strips += [Strip.blank(width, self.look.ink.text)] * (height - 1 - len(strips))
            legend = [(" ", self.look.ink.text), *looks.legend(self.look)]
            strips.append(draw.line(legend, width, self.look.ink.text, ellipsis=""))
        return strips[:height]

    def _names_width(self, found: Matrix, width: int) -> int:
        longest = max(draw.width_of(row.name) for row in found.rows)
        return max(NAMES_LEAST, min(longest, NAMES_MOST, width // 3))

    def _columns_in_view(self, found: Matrix, room: int) -> list[int]:
        """The columns that fit, the cursor's among them."""
        self._left = min(self._left, self._column)
        while self._left < self._column:
            needed = sum(_width(column) for column in found.columns[self._left : self._column + 1])
            if needed <= room:
                break
            self._left += 1
        # As many as fit: columns that went out at the left come back when there is room again.
        total = sum(_width(column) for column in found.columns[self._left :])
        while self._left and total + _width(found.columns[self._left - 1]) <= room:
            self._left -= 1
            total += _width(found.columns[self._left])
        shown: list[int] = []
        for index in range(self._left, len(found.columns)):
            room -= _width(found.columns[index])
            if room < 0 and shown:
                break
            shown.append(index)
        return shown

    def _headings(self, found: Matrix, shown: list[int], names: int, width: int) -> list[Strip]:
        look = self.look
        ink = look.ink
        before = look.glyphs.left if shown[0] else " "
        behind = look.glyphs.right if shown[-1] < len(found.columns) - 1 else " "
        groups: list[Part] = [(" " * (names + 1), ink.dim), (before, ink.accent)]
        checks: list[Part] = [(" " * (names + 2), ink.dim)]
        last: object = ()
        for index in shown:
            column, cells = found.columns[index], _width(found.columns[index])
            here = index == self._column
            new = column.group is not last or not column.heading
            last = column.group
            room = cells
            if column.heading and new:
                room = sum(
                    _width(found.columns[i])
                    for i in shown
                    if i >= index and found.columns[i].group is column.group
                )
            if new:
                chosen = found.columns[self._column].group is column.group
                name = looks.group_name(column.group) if not column.heading else _long(column, room - 1)
                groups.append((draw.pad(name, room), ink.strong if chosen else ink.title))
            text = column.heading or str(len(column.ids))
            checks.append((draw.pad(text, cells), ink.strong if here else ink.dim))
        first = draw.line(groups, width - 1, ink.text, ellipsis="")
        return [
            Strip([*first, Segment(behind, ink.accent)], width),
            draw.line(checks, width, ink.text, ellipsis=""),
        ]

    def _painted(self, found: Matrix, index: int, shown: list[int], names: int, width: int) -> Strip:
        look = self.look
        ink = look.ink
        row = found.rows[index]
        chosen = index == self._row
        name = draw.pad(row.name, names, ellipsis=look.glyphs.ellipsis)
        mark = look.glyphs.cursor if chosen and self.has_focus else " "
        segments = [
            Segment(mark, ink.accent),
            Segment(name + " ", ink.strong if chosen else ink.text),
        ]
        left = width - names - 2
        for number in shown:
            column = found.columns[number]
            cells = min(_width(column), max(0, left))
            parts = looks.cell_parts(found.cell(row, column), column, look)
            strip = draw.line(parts, cells, ink.text, ellipsis="")
            segments += self._under_cursor(strip, chosen, number == self._column)
            left -= cells
        segments.append(Segment(" " * max(0, left), ink.text))
        return Strip(segments).adjust_cell_length(width, ink.text)

    def _under_cursor(self, strip: Strip, row: bool, column: bool) -> list[Segment]:
        ink = self.look.ink
        if not (row and column):
            return list(strip)
        ground = ink.cursor if self.has_focus else ink.idle_cursor
        return [Segment(text, ink.over(style or ink.text, ground)) for text, style, _ in strip]

    # The cursor.

    def _go(self, row: int, column: int) -> None:
        found = self.matrix
        if found is None or not found.rows or not found.columns:
            return
        row = max(0, min(row, len(found.rows) - 1))
        column = max(0, min(column, len(found.columns) - 1))
        if (row, column) != (self._row, self._column):
            self._row, self._column = row, column
            self.repaint()
        self.post_message(self.Moved())

    def _bad_places(self) -> list[tuple[int, int]]:
        """Where a finding is bad: the worst first, then column by column."""
        found = self.matrix
        if found is None:
            return []
        places = []
        for number, column in enumerate(found.columns):
            for index, row in enumerate(found.rows):
                mark = found.cell(row, column).mark
                if mark is not None and mark.bad:
                    places.append((-mark.weight, number, index))
        return [(index, number) for _, number, index in sorted(places)]

    def action_step(self, rows: int, columns: int) -> None:
        """Move the cursor."""
        self._go(self._row + rows, self._column + columns)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page of rows."""
        self._go(self._row + pages * max(1, self.size.height - 3 - HEADINGS), self._column)

    def action_edge(self, rows: int, columns: int) -> None:
        """To the first or last row or column."""
        far = 1 << 20
        self._go(self._row + rows * far, self._column + columns * far)

    def action_next_bad(self) -> None:
        """To the next finding that is bad."""
        places = self._bad_places()
        if not places:
            self.notify("No check fails or warns.", markup=False)
            return
        here = (self._row, self._column)
        self._go(*places[(places.index(here) + 1) % len(places) if here in places else 0])

    # Folding.

    def action_unfold(self) -> None:
        """Group: its checks that are bad; "+7": all of its checks; a check: the group again."""
        if self.matrix is None or self.place is None:
            return
        _, column = self.place
        if column.single:
            self._groups.pop(column.group, None)
        elif column.heading:
            self._groups[column.group] = Unfolded.ALL
        else:
            told = any(
                mark_of(finding).notable and finding.id in column.ids
                for finding in self.matrix.report.findings
            )
            self._groups[column.group] = Unfolded.WRONG if told else Unfolded.ALL
        self._fold(self.matrix.report)

    def action_all(self) -> None:
        """Every check of every group, or groups alone."""
        if self.matrix is None:
            return
        groups = {column.group for column in self.matrix.columns}
        full = all(self._groups.get(group) is Unfolded.ALL for group in groups)
        self._groups = {} if full else dict.fromkeys(groups, Unfolded.ALL)
        self._fold(self.matrix.report)

    def action_nodes(self) -> None:
        """One row a node for the nodes under the cursor, or for all; and back."""
        if self.matrix is None:
            return
        firsts = frozenset(row.nodes[0] for row in self.matrix.rows if len(row.nodes) > 1)
        self._single = firsts if firsts and not self._single else frozenset()
        self._fold(self.matrix.report)

    # The mouse.

    def on_click(self, event: Click) -> None:
        """A click puts the cursor there, a double click unfolds."""
        found = self.matrix
        row = self._top + event.y - 1 - HEADINGS
        if found is None or not 0 <= row < len(found.rows):
            return
        names = self._names_width(found, self.size.width - 2)
        x = event.x - names - 3
        for number in self._columns_in_view(found, self.size.width - 2 - names - 2):
            x -= _width(found.columns[number])
            if x < 0:
                self._go(row, number)
                break
        if event.chain == 2:
            self.action_unfold()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.action_step(3, 0)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        event.stop()
        self.action_step(-3, 0)


def _width(column: Column) -> int:
    text = column.heading or looks.group_name(column.group)
    return max(4, draw.width_of(text) + 1)


def _index(keys: list[str], key: str, otherwise: int) -> int:
    return keys.index(key) if key in keys else max(0, min(otherwise, len(keys) - 1))


def _long(column: Column, room: int) -> str:
    """A group's own name where there is room for it, else the short one."""
    name = column.group.value if column.group is not None else "other"
    return name if len(name) <= room else looks.group_name(column.group)
