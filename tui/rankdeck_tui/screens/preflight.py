"""Preflight: what the checks say of every node of a pool, and what to do about it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import DescendantFocus

from rankdeck_backends.preflight.finding import Verdict
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile
from rankdeck_profiles.nodes import folded
from rankdeck_tui import words
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.preflight import detail
from rankdeck_tui.preflight.asking import Asking
from rankdeck_tui.preflight.grid import CheckMatrix
from rankdeck_tui.preflight.trying import Trying
from rankdeck_tui.screens.base import DeckScreen
from rankdeck_tui.screens.confirm import ConfirmScreen
from rankdeck_tui.screens.pick import PickScreen
from rankdeck_tui.widgets.bars import KeyBar, TitleBar
from rankdeck_tui.widgets.lines import Lines
from rankdeck_tui.widgets.plan_view import wrapped
from rankdeck_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from rankdeck_runs.active import ActiveTest, Measured

BAR = 20
"""Cells of the bar of an active test."""
SENDERS = {
    "torch": ("torch", "an all-reduce over NCCL, without GPUs over Gloo"),
    "mpi": ("mpi4py", "messages there and back, by mpirun"),
}
"""Name and words of each active test (`rankdeck_runs.active.ActiveTest`)."""
NARROW = 100
"""Cells below which the finding stands under the matrix."""
LOWEST_SHARED = 16
"""Rows of a screen in which matrix and finding both have room; on a lower one the finding is a tab away."""


class PreflightScreen(DeckScreen):
    """The matrix, and beside it the finding under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "ask again", tooltip="Ask the nodes again", id="preflight.again"),
        Binding(
            "w", "write", "write", tooltip="Write the report to a file: .md or .json", id="preflight.write"
        ),
        Binding(
            "t",
            "send",
            "try pairs",
            tooltip="Have pairs of nodes send to each other (says the cost first), or end that",
            id="preflight.send",
        ),
        Binding(
            "tab",
            "pane",
            "Next pane",
            show=False,
            tooltip="To the matrix, to the finding",
            id="preflight.pane",
        ),
        Binding("shift+tab", "pane", "Previous pane", show=False, id="preflight.previous_pane"),
        Binding("escape,q", "back", "back", tooltip="Leave the preflight", id="always.back"),
    ]

    def __init__(self, profile: Profile | None, pool: Pool) -> None:
        """Make the screen; the nodes are asked as soon as it is shown.

        Args:
            profile: what is to be run; None: the pool alone is looked at.
            pool: the nodes.
        """
        super().__init__()
        self.profile = profile
        self.pool = pool
        self.asking = Asking()
        self.trying = Trying()

    def compose(self) -> ComposeResult:
        """Title, progress or matrix, finding, keys."""
        yield TitleBar()
        with Container(id="main"):
            yield Lines("Asking the nodes", stick=True, id="progress")
            yield CheckMatrix(id="matrix")
            yield Lines("Finding", id="finding")
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        """Ask at once."""
        self.query_one("#progress").focus()
        self.action_again()
        self.set_interval(0.2, self._tick)

    def on_unmount(self) -> None:
        """Nobody waits for the answer any more."""
        self.asking.forget()
        self.trying.call_off()

    # Showing.

    def _tick(self) -> None:
        asking = self.asking
        if asking.take() and asking.checked is not None and asking.error is None:
            first = not self.has_class("-told")
            self.add_class("-told")
            self.query_one(CheckMatrix).show(asking.checked.report)
            if first:
                self.query_one(CheckMatrix).focus()
        if (error := self.trying.take(self._take_pairs)) is not None:
            self.notify(error.message, title="Nothing was sent", severity="error", markup=False)
        self._show()

    def _show(self) -> None:
        look = self.deck.look
        ink = look.ink
        self.set_class(self.size.height < LOWEST_SHARED, "-low")
        dot: Part = (f" {look.glyphs.dot} ", ink.faint)
        what = (
            f"profile {self.profile.name} on pool {self.pool.name}"
            if self.profile
            else f"pool {self.pool.name}"
        )
        title: list[Part] = [("preflight", ink.strong), (f"  {what}", ink.text)]
        title += [dot, (words.plural(self._count, "node"), ink.text)]
        self.query_one(TitleBar).show(title, self._status())
        if not self.has_class("-told"):
            self._show_progress()
        self._share_rows()

    def _share_rows(self) -> None:
        """On a narrow screen the matrix takes the rows it needs, up to half; the finding has the rest."""
        matrix = self.query_one(CheckMatrix)
        shared = self.size.width < NARROW and not self.has_class("-low")
        matrix.styles.height = min(matrix.rows_wanted, max(8, self.size.height // 2)) if shared else "1fr"

    @property
    def _count(self) -> int:
        wanted = self.profile.nodes if self.profile is not None else None
        return min(wanted or len(self.pool.nodes), len(self.pool.nodes))

    def _status(self) -> list[Part]:
        look, asking = self.deck.look, self.asking
        ink = look.ink
        if asking.under_way:
            said = asking.progress[-1] if asking.progress else "asking the nodes"
            took = words.duration(time.monotonic() - asking.since)
            return [(f"{look.glyphs.checking} {took} ", ink.busy), (said, ink.dim)]
        if self.trying.under_way:
            return self._sending()
        if asking.error is not None:
            return [(f"{look.glyphs.failed} {asking.error.message}", ink.bad)]
        if asking.checked is None:
            return []
        report = asking.checked.report
        if report.blocked:
            ids = dict.fromkeys(finding.id for finding in report.stopping)
            said = words.plural(len(ids), "reason") + " not to launch"
            if self.size.width >= 100:
                said += ": " + ", ".join(list(ids)[:2]) + (look.glyphs.ellipsis if len(ids) > 2 else "")
            return [(f"{look.glyphs.failed} {said}", ink.bad)]
        if report.unknown:
            return [(f"{look.glyphs.warning} nothing is known of {folded(report.unknown)}", ink.warn)]
        if report.verdict is Verdict.WARN:
            return [(f"{look.glyphs.warning} nothing stops a launch; there are warnings", ink.warn)]
        return [(f"{look.glyphs.succeeded} nothing stops a launch", ink.good)]

    def _sending(self) -> list[Part]:
        """The bar of an active test."""
        ink, done, total = self.deck.look.ink, self.trying.done, self.trying.total
        full = BAR * done // total if total else 0
        bar = "#" * full + "." * (BAR - full)
        return [(f"[{bar}] ", ink.busy), (f"{done} of {words.plural(total, 'pair')} sent", ink.dim)]

    def _show_progress(self) -> None:
        ink, asking = self.deck.look.ink, self.asking
        pane = self.query_one("#progress", Lines)
        lines: list[Parts] = [[(line, ink.text)] for line in list(asking.progress)]
        error = asking.error
        if error is not None:
            width = max(40, pane.size.width - 4)
            failed = f"{self.deck.look.glyphs.failed} "
            lines += wrapped(error.message, failed, ink.bad, ink.bad, self.deck.look, width)
            lines += (
                wrapped(error.hint, "  ", ink.warn, ink.warn, self.deck.look, width) if error.hint else []
            )
        pane.set_lines(lines)

    @on(CheckMatrix.Moved)
    def _show_finding(self) -> None:
        matrix = self.query_one(CheckMatrix)
        if matrix.place is None or matrix.matrix is None:
            return
        row, column = matrix.place
        pane = self.query_one("#finding", Lines)
        width = max(30, pane.size.width - 4)
        lines = detail.lines_of(matrix.matrix, row, column, self.deck.look, width)
        where: Parts = [(row.name, self.deck.look.ink.accent)]
        if (title := detail.title_of(column)) != pane.title or where != list(pane.note):
            pane.to_top()
        pane.set_lines(lines, title=title, note=where)

    def on_resize(self) -> None:
        """Lines are broken anew."""
        self.call_after_refresh(self._show_finding)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to write, and no pane to go to, before the first answer."""
        return self.has_class("-told") if action in ("write", "pane", "send") else True

    def key_words(self, binding: Binding) -> str:
        """The same key begins a test and ends it."""
        if binding.action == "send" and self.trying.under_way:
            return "stop trying"
        return super().key_words(binding)

    def action_again(self) -> None:
        """Ask the nodes again; what is known stays on screen until they have answered."""
        if not self.asking.under_way and not self.trying.under_way:
            self.asking.begin(self.deck.engine, self.profile, self.pool)
            self._show()

    def action_pane(self) -> None:
        """To the other pane."""
        matrix = self.query_one(CheckMatrix)
        self.query_one("#finding" if matrix.has_focus else "#matrix").focus()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """On a low screen the pane with the focus is the one that is seen."""
        if event.widget.id in ("matrix", "finding"):
            self.set_class(event.widget.id == "finding", "-reading")
        self.refresh_bindings()

    def action_back(self) -> None:
        """Out of the finding on a low screen, else out of the preflight."""
        if self.has_class("-low", "-reading"):
            self.query_one(CheckMatrix).focus()
        else:
            self.dismiss(None)

    # Active tests.

    @work
    async def action_send(self) -> None:
        """Have pairs send: which test, then its cost, then the person says so. Under way: end it."""
        from rankdeck_runs import active
        from rankdeck_runs.checking import BY_MPIRUN

        if self.trying.under_way:
            self.trying.call_off()
            self.refresh_bindings()
            self.notify("The pairs' runs are being ended.", title="Called off", markup=False)
            return
        checked = self.asking.checked
        if checked is None or self.asking.under_way:
            return
        try:
            pool = active.senders(self.profile, self.pool, checked.unreached)
        except RankdeckError as error:
            self.notify(error.message, title="Nothing was sent", severity="warning", markup=False)
            return
        by_mpi = self.profile is not None and self.profile.framework in BY_MPIRUN
        first = active.ActiveTest.MPI if by_mpi else active.ActiveTest.TORCH
        picked = await self.app.push_screen_wait(
            PickScreen("What sends", [(str(test), *SENDERS[test]) for test in active.ActiveTest], str(first))
        )
        if picked is None:
            return
        test = active.ActiveTest(picked)
        cost = active.cost(test, len(active.disjoint(pool.nodes)))
        if await self.app.push_screen_wait(ConfirmScreen("Have pairs of nodes send?", [cost], "Send")):
            python = (self.profile.python if self.profile is not None else "") or "python3"
            self.trying.begin(self.deck.engine, test, pool, self.profile, python)
            self.refresh_bindings()
            self._show()

    def _take_pairs(self, test: ActiveTest, found: Sequence[Measured]) -> None:
        from rankdeck_runs.active_findings import with_measured

        assert self.asking.checked is not None
        self.asking.checked = with_measured(self.asking.checked, test, found)
        self.query_one(CheckMatrix).show(self.asking.checked.report)
        self.refresh_bindings()

    # The report as a file.

    def action_write(self) -> None:
        """Ask for the file."""
        moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(self.deck.now()))
        name = f"preflight-{self.pool.name.rpartition('/')[2]}-{moment}.md"
        self.query_one(Prompt).ask("file", name, ".md or .json  enter writes  esc", back_to=self.focused)

    @on(Prompt.Ended)
    def _named(self, message: Prompt.Ended) -> None:
        if not message.kept or not message.text.strip() or self.asking.checked is None:
            return
        path = Path(os.path.expanduser(message.text.strip())).absolute()
        if path.is_file():
            self._replace(path)
        else:
            self._write(path)

    @work
    async def _replace(self, path: Path) -> None:
        """Write over a file that is there, if the person says so."""
        question = ConfirmScreen("Replace the file?", [f"{path} is there already."], "Replace")
        if await self.app.push_screen_wait(question):
            self._write(path)

    def _write(self, path: Path) -> None:
        try:
            path.write_text(self._text(path), encoding="utf-8")
        except OSError as error:
            said = f"{path}: {error.strerror or error}"
            self.notify(said, title="The report was not written", severity="error", markup=False)
        else:
            self.notify(str(path), title="Report written", markup=False)

    def _text(self, path: Path) -> str:
        assert self.asking.checked is not None
        report = self.asking.checked.report
        if path.suffix == ".json":
            return json.dumps(self.asking.checked.to_json(), indent=1) + "\n"
        from rankdeck_backends.preflight.markdown import as_markdown

        return as_markdown(report, title=f"Preflight of pool {self.pool.name}")
