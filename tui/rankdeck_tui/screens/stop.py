"""Stopping a run: asks first, then shows what is left until all is proven gone."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.stopping import StopProgress, StopResult
from rankdeck_tui import stops, words
from rankdeck_tui.look.draw import cleaned

if TYPE_CHECKING:
    from rankdeck_tui.app import RankdeckApp

MOST_NODES = 12
"""Lines that tell of nodes."""


class StopScreen(ModalScreen[bool]):
    """Question, then progress. Leaving it does not call the stop off: that would leave half a run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close", id="stop.close"),
        Binding("y", "yes", "Stop the run", show=False, id="stop.yes"),
        Binding("n", "close", "Do not stop it", show=False, id="stop.no"),
        Binding("left,right,h,l", "other", "Other button", show=False, id="stop.other"),
        Binding(
            "x", "force", "force", show=False, tooltip="SIGKILL at once (while stopping)", id="stop.force"
        ),
    ]

    def __init__(self, run_id: str) -> None:
        """Make the question.

        Args:
            run_id: the run to stop.
        """
        super().__init__()
        self._run_id = run_id
        self._left: dict[str, StopProgress] = {}
        """Node -> what is left there; written by the engine's thread, read by the timer."""
        self._future: Future[StopResult] | None = None
        self._forced = False

    @property
    def _deck(self) -> RankdeckApp:
        return cast("RankdeckApp", self.app)

    def compose(self) -> ComposeResult:
        """Title, text, two buttons."""
        with Vertical(classes="dialog -danger"):
            yield Static(Content(f"Stop {cleaned(self._run_id)}?"), classes="dialog-title", markup=False)
            yield Static(Content(self._question()), classes="dialog-text", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(Content("Cancel (n)"), id="cancel", compact=True)
                yield Button(Content("Stop the run (y)"), id="stop", compact=True, variant="error")

    def on_mount(self) -> None:
        """Cancel is what Enter means."""
        self.query_one("#cancel").focus()
        self.set_interval(0.2, self._tick)

    def _question(self) -> str:
        try:
            snapshot = self._deck.home.find(self._run_id).snapshot()
        except RankdeckError as error:
            return cleaned(error.message)
        nodes = [cleaned(node.name) for node in snapshot.nodes]
        shown = ", ".join(nodes[:8]) + (f" and {len(nodes) - 8} more" if len(nodes) > 8 else "")
        return (
            f"{words.plural(snapshot.world_size, 'rank')} on {words.plural(len(nodes), 'node')}: {shown}\n\n"
            "Every rank gets the profile's stop signal and its grace to write a checkpoint; "
            "then SIGKILL. Nothing else on the nodes is touched."
        )

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_close()

    @on(Button.Pressed, "#stop")
    def _stop(self) -> None:
        if self._future is None:
            self._begin(force=False)
        else:
            self.action_force()

    def _begin(self, *, force: bool) -> None:
        self._forced = force
        self._left.clear()
        self._future = self._deck.engine.stop(self._run_id, force=force, progress=self._progress)
        self.query_one(".dialog-title", Static).update(Content(f"Stopping {cleaned(self._run_id)}"))
        self.query_one("#cancel", Button).label = Content("Close")
        self.query_one("#stop", Button).label = Content("Force: SIGKILL now")
        self.query_one("#cancel").focus()
        self._tick()

    def _progress(self, progress: StopProgress) -> None:
        self._left[progress.node] = progress

    def _tick(self) -> None:
        future = self._future
        if future is None:
            return
        text = self.query_one(".dialog-text", Static)
        if not future.done():
            text.update(Content(self._what_is_left()))
            return
        self._future = None
        self.query_one("#stop").display = False
        try:
            result = future.result()
        except RankdeckError as error:
            self._end("The run could not be stopped", f"{error.message}\n{error.hint}")
            return
        if result.gone:
            self._end("Stopped", "Nothing of the run is left on any node." + _swept(result))
        else:
            self._end("Not all of it could be stopped", _rest(result))

    def _end(self, title: str, text: str) -> None:
        self.query_one(".dialog-title", Static).update(Content(title))
        shown = "\n".join(cleaned(line) for line in text.splitlines())
        self.query_one(".dialog-text", Static).update(Content(shown))

    def _what_is_left(self) -> str:
        if not self._left:
            return "Telling the nodes ..."
        # Who is left comes first: of many nodes, those that are done are told last.
        left = sorted(self._left.values(), key=lambda progress: (not progress.left, progress.node))
        lines = [cleaned(stops.left_on(progress, forced=self._forced)) for progress in left]
        return "\n".join(lines[:MOST_NODES])

    def action_yes(self) -> None:
        """Yes to the question. It answers nothing else: a second y is no order to kill."""
        if self._future is None and self.query_one("#stop").display:
            self._begin(force=False)

    def action_force(self) -> None:
        """Second step: SIGKILL at once. Only while a stop is under way."""
        if self._future is not None and not self._forced:
            self._begin(force=True)

    def action_other(self) -> None:
        """The other button."""
        self.focus_next()

    def action_close(self) -> None:
        """Close; a stop that is under way goes on."""
        if self._future is not None:
            self.app.notify("The stop goes on; the dashboard shows when all is gone.", markup=False)
        self.dismiss(self._future is not None)


def _swept(result: StopResult) -> str:
    if not result.swept:
        return ""
    return "\n\nLeft-over processes that were ended, too:\n" + "\n".join(
        f"{process.node}: {process.pid} {process.cmd}" for process in result.swept[:8]
    )


def _rest(result: StopResult) -> str:
    lines = [
        f"{process.node}: process {process.pid} is still there: {process.cmd} ({process.why})"
        for process in result.left[:8]
    ]
    lines += [f"{node}: not reached: {why}" for node, why in result.unreached[:8]]
    return "\n".join(lines) or "The nodes did not say that all is gone."
