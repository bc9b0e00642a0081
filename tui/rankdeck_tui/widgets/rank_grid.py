"""The grid of ranks: one cell each, by node, told apart by shape, letter and colour."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip

from rankdeck_runs.states import NodeState, RankState, RankStatus, RunSnapshot
from rankdeck_tui import stops
from rankdeck_tui.look import Look, draw, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets import network_words
from rankdeck_tui.widgets.grid_layout import GridLayout, lay_out
from rankdeck_tui.widgets.painted import Pane

_ORDER = (
    RankState.FAILED,
    RankState.LOST,
    RankState.UNKNOWN,
    NodeState.STOPPING,
    RankState.RUNNING,
    RankState.WAITING,
    RankState.STOPPED,
    RankState.SUCCEEDED,
)
"""What needs a look comes first."""
_BAD = (RankState.FAILED, RankState.LOST, RankState.UNKNOWN)
DIGIT_PAUSE = 1.0
"""Seconds after which a digit begins a new rank number."""


class RankGrid(Pane, can_focus=True):
    """All ranks at a glance, with a cursor. It scales by making cells smaller, then by scrolling."""

    PANE = "rank grid"
    """What help calls it."""

    class Opened(Message):
        """Enter, a digit or a double click: this rank's log is wanted."""

        def __init__(self, rank: int, *, stay: bool) -> None:
            super().__init__()
            self.rank = rank
            self.stay = stay
            """True: the focus stays in the grid."""

    class Moved(Message):
        """The cursor is on another rank."""

        def __init__(self, rank: int) -> None:
            super().__init__()
            self.rank = rank

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "open", "open log", tooltip="Show this rank's log in the focused tile", id="grid.open"
        ),
        Binding("left,h", "step(-1, 0)", "Left", show=False, id="grid.left"),
        Binding("right,l", "step(1, 0)", "Right", show=False, id="grid.right"),
        Binding("up,k", "step(0, -1)", "Up", show=False, id="grid.up"),
        Binding("down,j", "step(0, 1)", "Down", show=False, id="grid.down"),
        Binding("home,g", "to_rank(0)", "First rank", show=False, id="grid.first"),
        Binding("end,G", "to_rank(1000000)", "Last rank", show=False, id="grid.last"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot: RunSnapshot | None = None
        self.cursor = 0
        self._layout: GridLayout | None = None
        self._top = 0
        self._digits = ""
        self._digit_at = 0.0
        self._kills: Mapping[int, float] = {}
        """Rank -> when it gets SIGKILL."""
        self._left: Mapping[float, str] = {}
        """That moment -> how far it is, in words."""

    def show(self, snapshot: RunSnapshot, now: float) -> None:
        """Show this state; repaints only if ranks, nodes or the seconds until SIGKILL differ.

        Args:
            snapshot: the run.
            now: unix seconds.
        """
        old, self.snapshot = self.snapshot, snapshot
        differs = old is None or old.ranks is not snapshot.ranks or old.nodes is not snapshot.nodes
        if differs:
            self._kills = stops.kill_times(snapshot)
        left = {moment: stops.countdown(moment - now) for moment in self._kills.values()}
        if differs or left != self._left:
            self._left = left
            self.repaint()

    def title_parts(self) -> Parts:
        """How many ranks."""
        count = len(self.snapshot.ranks) if self.snapshot else 0
        return [("Ranks", self.title_style()), (f" {count}", self.look.ink.dim)]

    def aside_parts(self) -> Parts:
        """How many in each state: the legend, too."""
        if self.snapshot is None:
            return ()
        states = Counter(stops.state_of(rank, self._kills) for rank in self.snapshot.ranks)
        return counts(states, self.look)

    def thumb(self, height: int) -> tuple[int, int] | None:
        """By rows."""
        rows = self._layout.rows if self._layout else 0
        return draw.thumb_of(self._top, max(1, height - 1), rows, height)

    def body(self, width: int, height: int) -> list[Strip]:
        """Cells in view, then one row that spells out the rank under the cursor."""
        snapshot = self.snapshot
        if snapshot is None or not snapshot.ranks:
            return [draw.line([(" No ranks yet.", self.look.ink.dim)], width, self.look.ink.text)]
        shown = max(1, height - 1)
        self.cursor = min(self.cursor, len(snapshot.ranks) - 1)
        layout = self._layout = lay_out(
            [node.ranks for node in snapshot.nodes], [node.name for node in snapshot.nodes], width - 2, shown
        )
        place = layout.place(self.cursor)
        if place is not None:
            self._top = max(min(self._top, place[1]), place[1] - shown + 1)
        self._top = max(0, min(self._top, layout.rows - shown))
        strips = [
            self._row(snapshot, layout, y, width)
            for y in range(self._top, min(self._top + shown, layout.rows))
        ]
        blank = Strip.blank(width, self.look.ink.text)
        strips += [blank] * (shown - len(strips))
        strips.append(
            draw.line([(" ", self.look.ink.text), *self._spelled_out(snapshot)], width, self.look.ink.text)
        )
        return strips

    def _row(self, snapshot: RunSnapshot, layout: GridLayout, y: int, width: int) -> Strip:
        look = self.look
        ink = look.ink
        segments: list[Segment] = [Segment(" ", ink.text)]
        used = 1
        first_row = y % layout.block_rows == 0
        for index, ranks in layout.row_of_blocks(y):
            if used > 1:
                segments.append(Segment(" " * 2, ink.text))
                used += 2
            node = snapshot.nodes[index]
            name = draw.pad(node.name if first_row else "", layout.label - 1, ellipsis=look.glyphs.ellipsis)
            lost = str(node.state) in ("lost", "unknown", "failed")
            segments.append(Segment(name + " ", marks.style(node.state, look) if lost else ink.dim))
            segments += [self._cell(snapshot.ranks[rank], layout.cell) for rank in ranks]
            blank = (layout.per_row - len(ranks)) * layout.cell
            if blank:
                segments.append(Segment(" " * blank, ink.text))
            used += layout.block_width
            if layout.across == 1 and first_row:
                kill = self._countdown(snapshot.nodes[index].ranks)
                text = draw.pad("  " + kill if kill else "", width - used, ellipsis=look.glyphs.ellipsis)
                segments.append(Segment(text, ink.warn))
                used = width
        if used < width:
            segments.append(Segment(" " * (width - used), ink.text))
        return Strip(Segment.simplify(segments), max(used, width)).crop(0, width)

    def _countdown(self, ranks: Sequence[int]) -> str:
        """When the first of these ranks gets SIGKILL; empty where none is being stopped."""
        moments = [self._kills[rank] for rank in ranks if rank in self._kills]
        return self._left[min(moments)] if moments else ""

    def _cell(self, rank: RankStatus, cell: int) -> Segment:
        look = self.look
        state = stops.state_of(rank, self._kills)
        text = marks.shape(state, look)
        if cell == 3:
            text += marks.letter(state)
        style = marks.style(state, look)
        if rank.rank == self.cursor:
            ground = look.ink.cursor if self.has_focus else look.ink.idle_cursor
            style = look.ink.over(style, ground)
        return Segment(text + (" " if cell > 1 else ""), style)

    def _spelled_out(self, snapshot: RunSnapshot) -> list[Part]:
        ink = self.look.ink
        rank = snapshot.ranks[self.cursor]
        dot = (f" {self.look.glyphs.dot} ", ink.faint)
        parts: list[Part] = [
            (f"rank {rank.rank}", ink.strong),
            dot,
            (f"{rank.node}:{rank.local_rank}" if rank.node else "its node is not known yet", ink.text),
            dot,
        ]
        parts += marks.mark(stops.state_of(rank, self._kills), self.look, letters=False)
        if kill := self._countdown([rank.rank]):
            parts += [dot, (kill, ink.warn)]
        if rank.signal:
            parts.append((f" by SIG{rank.signal}", ink.bad if rank.state is RankState.FAILED else ink.dim))
        elif rank.exit_code is not None:
            parts.append((f" exit {rank.exit_code}", ink.bad if rank.exit_code else ink.dim))
        if network := network_words.of_rank(rank, self.look):
            parts += [dot, *network]
        if rank.pid is not None and not rank.state.is_terminal:
            parts += [dot, (f"pid {rank.pid}", ink.dim)]
        if rank.why:
            parts += [dot, (rank.why, ink.warn)]
        return parts

    def go_to(self, rank: int) -> None:
        """Put the cursor on a rank."""
        if self.snapshot is None or not self.snapshot.ranks:
            return
        rank = max(0, min(rank, len(self.snapshot.ranks) - 1))
        if rank != self.cursor:
            self.cursor = rank
            self.repaint()
            self.post_message(self.Moved(rank))

    def action_step(self, dx: int, dy: int) -> None:
        """Move the cursor to the next cell in one direction."""
        layout = self._layout
        place = layout.place(self.cursor) if layout else None
        if layout is None or place is None:
            return
        if dx:
            self.go_to(self.cursor + dx)
            return
        x, y = place
        while 0 <= (y := y + dy) < layout.rows:
            # Not every row has a cell in this column: a node may have fewer ranks.
            for left in range(x, -1, -1):
                rank = layout.at(left, y)
                if rank is not None:
                    self.go_to(rank)
                    return

    def action_to_rank(self, rank: int) -> None:
        """Put the cursor on a rank (beyond the last: the last)."""
        self.go_to(rank)

    def action_open(self) -> None:
        """Ask for the log of the rank under the cursor."""
        self.post_message(self.Opened(self.cursor, stay=False))

    def next_bad(self) -> int | None:
        """The next rank that failed, is lost or unknown, past the cursor and around; None: all are well."""
        if self.snapshot is None:
            return None
        found = [rank.rank for rank in self.snapshot.ranks if rank.state in _BAD]
        return next((rank for rank in found if rank > self.cursor), found[0] if found else None)

    def type_digit(self, digit: str) -> None:
        """Digits type a rank's number: each one goes to the rank so far and opens its log."""
        if self.snapshot is None:
            return
        now = time.monotonic()
        longer = self._digits + digit if now - self._digit_at < DIGIT_PAUSE else digit
        if int(longer) >= len(self.snapshot.ranks):
            longer = digit
        self._digits, self._digit_at = longer, now
        if int(longer) < len(self.snapshot.ranks):
            self.go_to(int(longer))
            self.post_message(self.Opened(int(longer), stay=True))

    def on_click(self, event: Click) -> None:
        """A click goes there; a double click opens."""
        rank = self._layout.at(event.x - 2, event.y - 1 + self._top) if self._layout else None
        if rank is not None:
            self.go_to(rank)
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel moves the cursor by rows."""
        event.stop()
        self.action_step(0, 1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel moves the cursor by rows."""
        event.stop()
        self.action_step(0, -1)


def counts(states: Mapping[RankState | NodeState, int], look: Look) -> list[Part]:
    """How many ranks are in each state, worst first, each with its mark."""
    parts: list[Part] = []
    for state in _ORDER:
        count = states.get(state, 0)
        if count:
            parts += [("  " if parts else "", look.ink.text), *marks.mark(state, look)]
            parts.append((f" {count}", marks.style(state, look)))
    return parts
