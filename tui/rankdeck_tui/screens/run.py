"""The dashboard of one run: ranks, logs, nodes, what happened. The same for one that is long over."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Key, Resize
from textual.message import Message

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs import layout
from rankdeck_runs.live import LiveRun
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui.logs.of_run import RunLogs
from rankdeck_tui.logs.tiles import Stream, Target
from rankdeck_tui.screens import run_keys, run_titles
from rankdeck_tui.screens.run_ages import Ages
from rankdeck_tui.screens.run_logs_wanted import last_words_of, launcher_of, proofs_of
from rankdeck_tui.screens.run_merged import MergedScreen
from rankdeck_tui.widgets.banner import Banner
from rankdeck_tui.widgets.bars import KeyBar, TitleBar
from rankdeck_tui.widgets.event_feed import EventFeed
from rankdeck_tui.widgets.lines import Lines
from rankdeck_tui.widgets.log_board import Arrangement, LogBoard
from rankdeck_tui.widgets.node_lines import node_lines
from rankdeck_tui.widgets.prompt import Prompt
from rankdeck_tui.widgets.rank_grid import RankGrid
from rankdeck_tui.widgets.tabs import Tabs

PANELS_EVERY = 0.2
LOGS_EVERY = 0.1
FIRST_TILES = 4
"""Tiles opened at first, where there is room: one a rank."""
TILE_ROWS = 9
"""Rows a tile should have for that."""
LOWEST_SHARED = 15
"""Rows of a narrow screen that holds title, banner, grid and keys, and a tile that shows anything."""


class RunScreen(MergedScreen):
    """One run."""

    class Attached(Message):
        """The run is followed, or can't be (done in a thread: reading a long record takes a moment)."""

        def __init__(self, live: LiveRun | None, error: RankdeckError | None) -> None:
            super().__init__()
            self.live = live
            self.error = error

    BINDINGS: ClassVar[list[BindingType]] = run_keys.BINDINGS

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.live: LiveRun | None = None
        self.logs = RunLogs()
        self.board = LogBoard(self.logs, id="board")
        self._version = -1
        self._shown: RunSnapshot | None = None
        self._feed: EventFeed | None = None
        self._ours: Arrangement | None = None
        """The tiles as this screen opened them; once they are others, they are the person's."""
        self._failed: tuple[Target, Stream] | None = None
        """The log with a failure's cause that was brought up."""
        self._proof = 0
        self._ages = Ages()

    # What is on screen.

    def compose(self) -> ComposeResult:
        """Title, banner, grid and panels beside the logs, keys."""
        yield TitleBar()
        yield Banner(id="cause")
        with Container(id="main"):
            with Vertical(id="side"):
                yield RankGrid(id="grid")
                yield Tabs(("Logs", "Nodes", "Events"), id="tabs")
                yield Lines("Nodes", id="nodes")
                yield Lines("Events", stick=True, id="events")
            yield self.board
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin to follow."""
        self.query_one(TitleBar).show([(self.run_id, self.deck.look.ink.text)])
        self.query_one(RankGrid).focus()
        self._follow()

    @work(thread=True, exclusive=True, group="attach")
    def _follow(self) -> None:
        try:
            self.post_message(self.Attached(self.deck.engine.attach(self.run_id), None))
        except RankdeckError as error:
            self.post_message(self.Attached(None, error))

    @on(Attached)
    def _attached(self, message: Attached) -> None:
        if message.live is None:
            text = message.error.message if message.error else "it can't be read"
            self.notify(text, title="This run can't be opened", severity="error", markup=False)
            self.dismiss(None)
            return
        self.live = message.live
        self.deck.watching.add(message.live)
        self._feed = EventFeed(self.live.path / layout.EVENTS)
        board = self.board
        self.logs.live = message.live
        snapshot = self.live.snapshot()
        self.query_one(RankGrid).show(snapshot, self.deck.now())
        self._open_first(snapshot, board)
        self._tick_panels()
        self.set_interval(PANELS_EVERY, self._tick_panels)
        self.set_interval(LOGS_EVERY, self._tick_logs)

    def _open_first(self, snapshot: RunSnapshot, board: LogBoard) -> None:
        narrow = self.size.width < 100
        count = 1 if narrow else max(1, min(FIRST_TILES, len(snapshot.ranks), self.size.height // TILE_ROWS))
        if last_words_of(snapshot) is not None:
            count = 1  # the failed rank's takes its place at the first look
        for rank in range(count):
            board.open(Target(rank), split=True)
        board.focused_tile = 0
        self._ours = board.arrangement()

    def _show_failed(self, snapshot: RunSnapshot) -> None:
        """The failed rank's last words by themselves, unless the tiles were chosen by the person."""
        wanted = last_words_of(snapshot)
        if wanted is None or wanted == self._failed or self.board.arrangement() != self._ours:
            return
        self._failed = wanted
        self.board.bring(*wanted)
        if wanted[0].rank is not None:
            self.query_one(RankGrid).go_to(wanted[0].rank)
        self._ours = self.board.arrangement()

    def on_unmount(self) -> None:
        """Close files and threads; the run goes on."""
        self.board.close_all()
        if self.live is not None:
            self.live.watch(None)

    def on_resize(self, event: Resize) -> None:
        """Narrow screens show one of logs, nodes and events."""
        self._show_tab()

    # Ticks.

    def _tick_logs(self) -> None:
        if self.is_current:
            self.board.tick()

    def _tick_panels(self) -> None:
        live = self.live
        if live is None or not self.is_current:
            return
        version, snapshot, now = live.version, live.snapshot(), self.deck.now()
        look = self.deck.look
        links, samples = live.links, live.samples
        ages = self._ages.of(samples, now)
        left, right = run_titles.title(snapshot, links, ages, look, now, self.size.width)
        if live.unwritten:
            right = run_titles.unwritten(live.unwritten, look)
        self.query_one(TitleBar).show(left, right)
        nodes = self.query_one("#nodes", Lines)
        lines = node_lines(snapshot, links, samples, ages, look, now, max(20, nodes.size.width - 3))
        nodes.set_lines(lines, title=f"Nodes {len(snapshot.nodes)}")
        if self.size.width >= 100:
            nodes.styles.height = max(5, min(len(lines) + 2, self.size.height * 4 // 10))
        self.query_one(Banner).show(snapshot, rows=2 if self.size.height < 32 else 5, now=now)
        self.query_one(RankGrid).show(snapshot, now)
        if version == self._version:
            return
        self._version = version
        if snapshot is not self._shown:
            self._shown = snapshot
            self._fit_grid(snapshot)
            self.refresh_bindings()
            self.board.titles_changed()
            self._show_failed(snapshot)
        if self._feed is not None and self._feed.read():
            self.query_one("#events", Lines).set_lines(self._feed.lines(look))

    def _fit_grid(self, snapshot: RunSnapshot | None) -> None:
        """The grid takes the rows it needs, up to four tenths of the screen; the panels share the rest."""
        if self.has_class("-grid"):
            self.query_one(RankGrid).styles.height = "1fr"
            return
        wanted = (len(snapshot.nodes) if snapshot else 0) + 3
        most = self.size.height * 4 // 10 if self.size.width >= 100 else 8
        self.query_one(RankGrid).styles.height = max(5, min(wanted, most))

    # Logs.

    @on(RankGrid.Opened)
    def _open_rank(self, message: RankGrid.Opened) -> None:
        board = self.board
        board.open(Target(message.rank))
        if not message.stay:
            self._leave_full()
        self._go_to_tab(0)
        if not message.stay:
            board.focus()

    def show_logs(self) -> None:
        """Bring the logs into view and give them the keys."""
        self._go_to_tab(0)
        self.board.focus()

    def action_split(self) -> None:
        """A tile for the rank under the cursor; if it has one, for the next rank that has none."""
        board, grid = self.board, self.query_one(RankGrid)
        world = len(grid.snapshot.ranks) if grid.snapshot else 0
        shown = {target.rank for target in board.targets()}
        ranks = [(grid.cursor + step) % world for step in range(world)] if world else []
        free = next((rank for rank in ranks if rank not in shown), grid.cursor)
        board.open(Target(free), split=True)

    @on(LogBoard.Left)
    def _leave_board(self, message: LogBoard.Left) -> None:
        self.action_pane(message.step)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What ended can't be stopped, what did not fail not be explained; tabs are for narrow screens."""
        if action == "stop":
            return self.live is None or not self.live.snapshot().state.is_terminal
        if action == "proof":
            return self.live is not None and bool(proofs_of(self.live.snapshot()))
        if action == "connect":
            return self.live is not None and any(link.needs_person for link in self.live.links.values())
        return self.size.width < 100 if action == "tab" else True

    def action_pane(self, step: int) -> None:
        """To the next pane: ranks, logs, nodes, events."""
        panes = [self.query_one(name) for name in ("#grid", "#board", "#nodes", "#events")]
        shown = [pane for pane in panes if pane.display and self.query_one("#side").display]
        if not shown:  # the logs over the whole screen
            self.board.go_round(step)
            return
        at = shown.index(self.focused) if self.focused in shown else -1
        shown[(at + step) % len(shown)].focus()

    def on_key(self, event: Key) -> None:
        """Digits type a rank's number, from the grid and from the logs alike."""
        if event.character is not None and event.character in "0123456789" and len(event.character) == 1:
            event.stop()
            self.query_one(RankGrid).type_digit(event.character)

    def action_next_bad(self) -> None:
        """Open both logs of the next rank that is not well."""
        grid, board = self.query_one(RankGrid), self.board
        rank = grid.next_bad()
        if rank is None:
            self.notify("No rank is failed, lost or unknown.", markup=False)
            return
        grid.go_to(rank)
        board.open(Target(rank), stream=Stream.BOTH)
        self._go_to_tab(0)

    def action_full(self) -> None:
        """The grid over the whole screen if it has the focus, else the logs over the full width; and back."""
        if self.has_class("-full") or self.has_class("-grid"):
            self._leave_full()
        else:
            self.add_class("-grid" if isinstance(self.focused, RankGrid) else "-full")
            if self.has_class("-full"):
                self.board.focus()
        self._fit_grid(self.query_one(RankGrid).snapshot)

    def _leave_full(self) -> None:
        self.remove_class("-full", "-grid")
        self._fit_grid(self.query_one(RankGrid).snapshot)

    def action_rank(self, step: int) -> None:
        """Another rank in the focused tile."""
        board, grid = self.board, self.query_one(RankGrid)
        if board.tile is None or grid.snapshot is None or not grid.snapshot.ranks:
            return
        now = board.tile.target.rank
        rank = grid.cursor if now is None else (now + step) % len(grid.snapshot.ranks)
        grid.go_to(rank)
        board.open(Target(rank))

    def action_launcher(self) -> None:
        """The launcher of the node that holds the rank under the cursor."""
        grid, board = self.query_one(RankGrid), self.board
        snapshot = grid.snapshot
        if snapshot is None or not snapshot.ranks:
            return
        target = launcher_of(snapshot, grid.cursor)
        if target is None:
            self.notify("This run has no launcher: each supervisor starts its ranks itself.", markup=False)
            return
        board.open(target, stream=Stream.BOTH)
        self._go_to_tab(0)
        board.focus()

    def action_proof(self) -> None:
        """To the line that the cause stands in; again: to the next one."""
        proofs = proofs_of(self.live.snapshot()) if self.live is not None else ()
        if not proofs:
            self.notify("No log line tells why.", markup=False)
            return
        target, stream, offset = proofs[self._proof % len(proofs)]
        self._proof += 1
        self.board.show_line(target, stream, offset)
        self._go_to_tab(0)

    def action_stop(self) -> None:
        """Ask, then stop."""
        from rankdeck_tui.screens.stop import StopScreen

        self.app.push_screen(StopScreen(self.run_id))

    def action_connect(self) -> None:
        """Try lost links again, now."""
        if self.live is not None:
            self.live.reconnect()

    def action_repeat(self, launch: bool) -> None:
        """Launch this run again, or compose it again."""
        self.compose_again(self.run_id, launch=launch)

    def action_back(self) -> None:
        """Out of what was opened last: a filter or search, the full screen, the dashboard."""
        if self.board.has_focus and self.board.clear_texts():
            return
        if self.has_class("-full") or self.has_class("-grid"):
            self._leave_full()
            if self._low:
                self.query_one(RankGrid).focus()
        else:
            self.dismiss(None)

    # Tabs of narrow screens.

    def action_tab(self, step: int) -> None:
        """Show another of logs, nodes and events (wide screens show all)."""
        tabs = self.query_one(Tabs)
        self._go_to_tab((tabs.index + step) % len(tabs.names))

    def _go_to_tab(self, index: int) -> None:
        self.query_one(Tabs).show(index)
        self._show_tab()
        if self.size.width < 100:
            self.query_one(("#board", "#nodes", "#events")[index]).focus()

    @property
    def _low(self) -> bool:
        """Whether logs find no room below the grid."""
        return self.size.width < 100 and self.size.height < LOWEST_SHARED

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Logs that are gone to are to be seen."""
        if event.widget is self.board and self._low and not self.has_class("-full"):
            self.remove_class("-grid")
            self.add_class("-full")

    def _show_tab(self) -> None:
        index = self.query_one(Tabs).index
        self.set_class(index == 1, "-tab-nodes")
        self.set_class(index == 2, "-tab-events")
        self._version = -1
