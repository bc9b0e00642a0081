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
from rankdeck_tui.widgets.metric_plots import MetricPlots

EVERY = 1.0
"""Seconds between two looks for new values."""
READING = 1.0
"""Seconds for which logs are read at one look, where nobody else does it (a run that is over)."""
SHARE = 0.5
"""Of a CPU that reading takes meanwhile: keys come first."""


class MetricsScreen(DeckScreen):
    """The plots of one run."""

    class Gathered(Message):
        """What the plots in view show (put together in a thread: 64 ranks' curves take a moment)."""

        def __init__(self, version: int, names: Sequence[str], shown: Sequence[Shown]) -> None:
            super().__init__()
            self.version = version
            self.names = names
            self.shown = shown

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,m", "dismiss", "back", tooltip="Back to the run", id="always.back"),
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
        book, plots = self._live.metrics, self._plots
        if read and book.version == self._seen:
            book.update(seconds=READING, share=SHARE)
            if book.version == self._seen:
                return
        version = book.version
        names = names_of(book)
        wanted = plots.in_view if plots.names else names
        shown = gathered(book, [name for name in names if name in wanted], plots.dots, plots.rank)
        self.post_message(self.Gathered(version, names, shown))

    @on(Gathered)
    def _show(self, message: Gathered) -> None:
        first = self._seen < 0 and not message.names
        self._seen = message.version
        if first and not self._live.metrics.version:
            # Nothing is known before the logs were read once: the next look says whether there is anything.
            self._gather(read=True)
        self._plots.show(message.names, message.shown)
