"""A run's metrics as plots side by side, or one over the whole pane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from rankdeck_runs.metrics.stats import Summary, written
from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part
from rankdeck_tui.plots import plot
from rankdeck_tui.plots.gather import Shown
from rankdeck_tui.widgets.painted import Painted

WIDE = 100
"""From so many cells on, two plots stand side by side."""
ROWS = 11
"""Rows that a plot should have, its border counted in."""
EMPTY = (
    "No metrics yet.",
    "",
    "Lines such as these are found by themselves, in stdout and stderr:",
    "  step 120 loss 0.4321 lr 1e-4 samples/s 318",
    "  {'loss': 0.4321, 'learning_rate': 0.0001}",
    "  tqdm's bar:  45/100 [00:10<00:12, 4.43it/s, loss=0.123]",
    "",
    "Other forms: name them in the profile,",
    "  [metrics]",
    r"  loss = 'cost is ([0-9.eE+-]+)'",
)


class View(NamedTuple):
    """What the plots in view need."""

    names: tuple[str, ...]
    dots: int
    """Columns of each plot."""
    rank: int | None
    """The chosen rank."""


class MetricPlots(Painted, can_focus=True):
    """The plots. Which ones are in view and how wide they are, its owner asks and brings their contents."""

    PANE = "plots"
    """What help calls it."""

    class ViewChanged(Message):
        """Other metrics are in view, or in another size, or another rank is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h,up,k", "choose(-1)", "Metric before", show=False, id="plots.previous"),
        Binding("tab,right,l,down,j", "choose(1)", "metric", tooltip="To the next metric", id="plots.next"),
        Binding(
            "enter,f", "single", "one/all", tooltip="One plot over the whole screen; and back", id="plots.one"
        ),
        Binding("less_than_sign,comma", "rank(-1)", "Rank before", show=False, id="plots.previous_rank"),
        Binding(
            "greater_than_sign,full_stop",
            "rank(1)",
            "rank",
            tooltip="Draw one rank's curve beside the mean; the next one",
            id="plots.next_rank",
        ),
        Binding("a", "no_rank", "all ranks", tooltip="The mean and spread alone", id="plots.no_rank"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.names: tuple[str, ...] = ()
        self.world = 0
        self.rank: int | None = None
        self._cursor = 0
        self._one = False
        self._shown: dict[str, Shown] = {}
        self._loaded = False

    # What the owner asks and brings.

    @property
    def in_view(self) -> tuple[str, ...]:
        """The metrics whose plots are seen."""
        if self._one:
            return self.names[self._cursor : self._cursor + 1]
        across, down = self._arrangement()
        page = self._cursor // (across * down) * across * down
        return self.names[page : page + across * down]

    @property
    def view(self) -> View:
        """What is to be shown."""
        return View(self.in_view, self.dots, self.rank)

    @property
    def dots(self) -> int:
        """Columns of each plot."""
        across, _ = self._arrangement()
        return plot.dots_across(self.size.width // across - 2, self.look)

    def show(self, names: Sequence[str], shown: Sequence[Shown]) -> None:
        """Show these; repaints only what differs."""
        contents = {one.name: one for one in shown}
        if (tuple(names), contents) == (self.names, self._shown) and self._loaded:
            return
        chosen = self.names[self._cursor] if self._loaded and self._cursor < len(self.names) else None
        self._loaded = True
        was = self.in_view
        self.names, self._shown = tuple(names), contents
        # A metric that comes up later must not move the person's choice to another one.
        if chosen in self.names and self._cursor:
            self._cursor = self.names.index(chosen)
        self.repaint()
        if self.in_view != was:
            self.post_message(self.ViewChanged())

    # The picture.

    def _arrangement(self) -> tuple[int, int]:
        """Plots side by side and one below the other."""
        if self._one:
            return 1, 1
        count = max(1, len(self.names))
        across = 2 if self.size.width >= WIDE and count > 1 else 1
        down = max(1, min(self.size.height // ROWS, -(-count // across)))
        return across, down

    def paint(self, width: int, height: int) -> list[Strip]:
        """All plots in view."""
        if not self.names:
            ink = self.look.ink
            lines = EMPTY if self._loaded else ("reading the logs",)
            return [draw.line([("  " + text, ink.dim)], width, ink.text) for text in ("", *lines)]
        across, down = self._arrangement()
        names = list(self.in_view)
        rows: list[Strip] = []
        for row in range(down):
            tall = height // down + (1 if row < height % down else 0)
            pieces = []
            for column in range(across):
                wide = width // across + (1 if column < width % across else 0)
                index = row * across + column
                pieces.append(self._plot(names[index] if index < len(names) else None, wide, tall))
            rows += [Strip.join(strips) for strips in zip(*pieces, strict=True)]
        return rows

    def _plot(self, name: str | None, width: int, height: int) -> list[Strip]:
        ink = self.look.ink
        if name is None:
            return [Strip.blank(width, ink.text)] * height
        chosen = self.names[self._cursor : self._cursor + 1] == (name,)
        border = ink.border_focus if chosen else ink.border
        shown = self._shown.get(name)
        at = (
            f"{self._cursor + 1}/{len(self.names)} " if chosen and len(self.in_view) < len(self.names) else ""
        )
        title: list[Part] = [(at + name, ink.title_focus if chosen else ink.title)]
        aside: list[Part] = []
        body: list[Strip] = [draw.line([(" reading", ink.dim)], width - 2, ink.text)]
        if shown is not None:
            title += self._last(shown)
            aside = self._best(shown.summary)
            place = "step" if shown.summary.stepped else "value"
            body = plot.paint(shown.columns, width - 2, height - 2, self.look, place)
        return draw.frame(title, body, width, height, self.look.glyphs, border, ink.text, aside=aside)

    def _last(self, shown: Shown) -> list[Part]:
        """`0.0433 (0.0265 to 0.0501)  rank 2 0.031`; what is no number, in words."""
        ink, metric = self.look.ink, shown.summary
        parts: list[Part] = [(f"  {written(metric.mean)}", ink.bad if metric.odd else ink.accent)]
        if metric.odd:
            some = f" on {len(metric.odd)} of {len(metric.ranks)} ranks" if len(metric.ranks) > 1 else ""
            parts.append((f" {self.look.glyphs.warning}{some} since {metric.odd_x:,.0f}", ink.bad))
        elif len(metric.ranks) > 1 and metric.low < metric.high:
            parts.append((f"  {written(metric.low)} to {written(metric.high)}", ink.dim))
        if shown.rank is not None:
            last = "-" if shown.rank_last is None else written(shown.rank_last)
            parts.append((f"  rank {shown.rank} {last}", ink.warn))
        return parts

    def _best(self, metric: Summary) -> list[Part]:
        if metric.best is None:
            return []
        return [(f"best {written(metric.best)} at {metric.best_x:,.0f}", self.look.ink.good)]

    # Keys.

    def _changed(self) -> None:
        self.repaint()
        self.post_message(self.ViewChanged())

    def action_choose(self, step: int) -> None:
        """Another metric."""
        if self.names:
            self._cursor = (self._cursor + step) % len(self.names)
            self._changed()

    def action_single(self) -> None:
        """The chosen plot alone, or all."""
        self._one = not self._one
        self._shown = {}
        self._changed()

    def action_rank(self, step: int) -> None:
        """Another rank's curve."""
        if self.world:
            at = (-1 if step > 0 else 0) if self.rank is None else self.rank
            self.rank = (at + step) % self.world
            self._changed()

    def action_no_rank(self) -> None:
        """No rank's curve."""
        self.rank = None
        self._changed()

    def on_resize(self) -> None:
        """Plots of another width need other columns."""
        self._shown = {}
        self._changed()
