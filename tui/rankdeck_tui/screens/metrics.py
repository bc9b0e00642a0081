"""A run's metrics as plots, while it runs and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from rankdeck_runs.live import LiveRun
from rankdeck_tui import words
from rankdeck_tui.look import marks
from rankdeck_tui.plots.gather import Shown, gathered, names_of
from rankdeck_tui.screens.base import DeckScreen
from rankdeck_tui.widgets.bars import KeyBar, TitleBar
from rankdeck_tui.widgets.metric_plots import MetricPlots, View

EVERY = 1.0
"""Seconds between two looks for new values."""
READING = 0.4
"""Seconds for which logs are read at one look, where who follows the run has not done it (or nobody does)."""


class MetricsScreen(DeckScreen):
    """The plots of one run."""

    class Gathered(Message):
        """What the plots in view show (put together in a thread: 64 ranks' curves take a moment)."""

        def __init__(self, version: int, names: Sequence[str], shown: Sequence[Shown], view: View) -> None:
            super().__init__()
            self.view = view
            self.version = version
            self.names = names
            self.shown = shown

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,p", "dismiss", "back", tooltip="Back to the run", id="always.back"),
    ]

    def __init__(self, live: LiveRun, rank: int | None = None) -> None:
        """Make the screen.

        Args:
            live: the run.
            rank: the rank whose curve is drawn beside the mean; None: none.
        """
        super().__init__()
        self._live = live
        self._plots = MetricPlots(id="plots")
        self._plots.rank = rank
        self._seen = -1

    def compose(self) -> ComposeResult:
        """Title, plots, keys."""
        yield TitleBar()
        yield self._plots
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin to look."""
        self._plots.styles.height = "1fr"
        self._plots.world = len(self._live.snapshot().ranks)
        self._plots.focus()
        self._tick()
        self.set_interval(EVERY, self._tick)

    def _tick(self) -> None:
        if not self.is_current:
            return
        look, snapshot = self.deck.look, self._live.snapshot()
        ranks = words.plural(snapshot.world_size, "rank")
        left = [
            (self._live.run_id, look.ink.strong),
            (f"  {snapshot.profile}  metrics of {ranks}  ", look.ink.dim),
        ]
        self.query_one(TitleBar).show(left, marks.mark(snapshot.state, look))
        self._gather(read=True)

    @on(MetricPlots.ViewChanged)
    def _view_changed(self) -> None:
        self._seen = -1
        self._gather(read=False)

    @work(thread=True, exclusive=True, group="gather", exit_on_error=False)
    def _gather(self, *, read: bool) -> None:
        book = self._live.metrics
        version = book.version
        if version and (version != self._seen or not read):
            self._tell(version)
        if read:
            whole = book.update(seconds=READING)
            # That there are none is known once the logs were read.
            if book.version != version or (whole and self._seen < 0):
                self._tell(book.version)

    def _tell(self, version: int) -> None:
        book, view = self._live.metrics, self._plots.view
        names = names_of(book)
        wanted = view.names or names
        shown = gathered(book, [name for name in names if name in wanted], view.dots, view.rank)
        self.post_message(self.Gathered(version, names, shown, view))

    @on(Gathered)
    def _show(self, message: Gathered) -> None:
        self._seen = message.version
        self._plots.show(message.names, message.shown)
        if message.view != self._plots.view:
            self._gather(read=False)  # keys were faster
