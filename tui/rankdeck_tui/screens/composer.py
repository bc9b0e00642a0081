"""The composer: pick profile and pool, change values, see exactly what would run, launch it."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_runs.errors import PrepareError
from rankdeck_runs.preparing import Prepared
from rankdeck_tui import composing
from rankdeck_tui.composing import Composition, Draft, FieldError
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.screens.base import DeckScreen
from rankdeck_tui.screens.checking import Checking
from rankdeck_tui.screens.confirm import ConfirmScreen
from rankdeck_tui.screens.launching import QUESTION, Launching
from rankdeck_tui.screens.pick_nodes import PickNodes
from rankdeck_tui.widgets import plan_view
from rankdeck_tui.widgets.bars import KeyBar, TitleBar, shown_keys
from rankdeck_tui.widgets.choice import Choice
from rankdeck_tui.widgets.field import Field
from rankdeck_tui.widgets.lines import Lines
from rankdeck_tui.widgets.plan_view import Place

SETTLED = 0.4
"""Seconds without typing after which the nodes are asked."""


class ComposerScreen(DeckScreen):
    """Fields at the left, the plan at the right."""

    class Planned(Message):
        """A plan was made without asking the nodes (in a thread)."""

        def __init__(self, draft: Draft, plan: LaunchPlan | None, error: RankdeckError | None) -> None:
            super().__init__()
            self.draft = draft
            self.plan = plan
            self.error = error

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "launch", "launch", tooltip="Start this run", id="composer.launch"),
        Binding(
            "left_square_bracket",
            "place(-1, 0)",
            "node",
            tooltip="Previous node",
            key_display="[ ]",
            id="composer.previous_node",
        ),
        Binding("right_square_bracket", "place(1, 0)", "Next node", show=False, id="composer.next_node"),
        Binding(
            "less_than_sign,comma",
            "place(0, -1)",
            "rank",
            tooltip="Previous rank",
            key_display="< >",
            id="composer.previous_rank",
        ),
        Binding(
            "greater_than_sign,full_stop", "place(0, 1)", "Next rank", show=False, id="composer.next_rank"
        ),
        Binding(
            "p",
            "preflight",
            "preflight",
            tooltip="All checks of its nodes",
            id="composer.preflight",
        ),
        Binding("n", "pick_nodes", "nodes", tooltip="Pick some nodes of the pool", id="composer.nodes"),
        Binding("r", "look_again", "look again", tooltip="Ask the nodes again", id="composer.again"),
        Binding(
            "escape", "back", "back", tooltip="Leave the field; then leave the composer", id="always.back"
        ),
    ]

    def __init__(self, composition: Composition, *, launch: bool = False) -> None:
        """Make the screen.

        Args:
            composition: what is to run.
            launch: True starts it as soon as the nodes have been asked; any change in a field calls that off.
        """
        super().__init__()
        self.composition = composition
        self.plan: LaunchPlan | None = None
        self.place = Place()
        self.error: RankdeckError | None = None
        """Why there is no plan, or why the nodes refuse it."""
        self.checking = Checking()
        self._planned: Draft | None = None
        self._changed_at = 0.0
        self._drafted: Draft | None = None
        self._launch_when_checked = launch
        self._launching = Launching()

    def compose(self) -> ComposeResult:
        """Title, fields, preview, what is under way, keys."""
        composition = self.composition
        yield TitleBar()
        with Horizontal(id="main"):
            with VerticalScroll(id="form", can_focus=False):
                yield Field("profile", "Profile", Choice(
                    composition.profile_names(), composition.profile, label=composition.shown, id="profile"
                ))  # fmt: skip
                yield Field("pool", "Pool", Choice(
                    composition.pool_names(), composition.pool_name(), label=composition.shown, id="pool"
                ))  # fmt: skip
                for name, label, hint in (
                    ("nodes", "Nodes", "all; or 2, or n[1-2]"),
                    ("procs_per_node", "Ranks a node", ""),
                    ("process_count", "Ranks in all", "in place of ranks a node"),
                    ("args", "Arguments", "none"),
                    ("env", "Environment", "NAME=value ..."),
                    ("workdir", "Folder", "where rankdeck was started"),
                    ("python", "Python", "python3"),
                ):
                    yield Field(name, label, Input(placeholder=hint, compact=True, id=name))
            yield Lines("Plan", id="preview")
        yield KeyBar()

    def on_mount(self) -> None:
        """Fill the fields and make a plan at once."""
        self._fill()
        self.query_one("#preview").focus()
        self._replan()
        self.set_interval(0.2, self._tick)

    def on_unmount(self) -> None:
        """Nobody waits for answers any more."""
        self.checking.forget()

    # Fields.

    def _fill(self) -> None:
        self.query_one("#procs_per_node", Input).placeholder = self.composition.ranks_hint()
        for name, text in self.composition.saved_values().items():
            field = self.query_one(f"#{name}", Input)
            with self.prevent(Input.Changed):
                field.value = self.composition.values.get(name, text)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        name = event.input.id
        if name in composing.FIELDS:
            saved = self.composition.saved_values()[name]
            if event.value == saved:
                self.composition.values.pop(name, None)
            else:
                self.composition.values[name] = event.value
            self._replan()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one("#preview").focus()

    @on(Choice.Changed, "#profile")
    def _other_profile(self, message: Choice.Changed) -> None:
        self.composition.profile = message.value
        self.composition.pool = None
        self.composition.values.clear()
        self.query_one("#pool", Choice).set(self.composition.pool_names(), self.composition.pool_name())
        self._fill()
        self._replan()

    @on(Choice.Changed, "#pool")
    def _other_pool(self, message: Choice.Changed) -> None:
        self.composition.pool = message.value
        self._replan()

    def action_pick_nodes(self) -> None:
        """List the pool's nodes, to mark some."""
        try:
            pool = self.composition.library.pool(self.composition.pool_name())
        except RankdeckError:
            return  # told beside the field of the pool

        def picked(names: str | None) -> None:
            if names is not None:
                self.query_one("#nodes", Input).value = names

        self.app.push_screen(PickNodes(pool), picked)

    # Planning.

    def _replan(self) -> None:
        draft = self.composition.draft()
        if self._drafted not in (None, draft):
            self._launch_when_checked = False
        self._drafted = draft
        self._changed_at = time.monotonic()
        self.checking.forget()
        self._plan_offline(draft)

    @work(thread=True, exclusive=True, group="plan")
    def _plan_offline(self, draft: Draft) -> None:
        plan, error = None, None
        try:
            plan = composing.plan_offline(self.composition.library, draft)
        except RankdeckError as problem:
            error = problem
        self.post_message(self.Planned(draft, plan, error))

    @on(Planned)
    def _take_plan(self, message: Planned) -> None:
        if message.draft != self.composition.draft():
            return
        self._planned, self.error = message.draft, message.error
        if message.plan is not None:
            self.plan = message.plan
            self.place = self.place.within(message.plan)
        self._show()

    def _tick(self) -> None:
        draft = self._planned
        settled = time.monotonic() - self._changed_at >= SETTLED
        if draft is not None and self.error is None and settled and not self.checking.begun:
            self._ask_nodes(draft)
        if self.checking.take():
            self.error = self.checking.error
            if self.checking.plan is not None:
                self.plan = self.checking.plan
                self.place = self.place.within(self.plan)
            if self._launch_when_checked:
                self._launch_when_checked = False
                self._launch_or_ask()
        self._take_launch()
        self._show()

    def _ask_nodes(self, draft: Draft, *, skip_checks: bool = False) -> None:
        try:
            profile, pool = composing.resolve(self.composition.library, draft)
        except RankdeckError as error:
            self.error = error
            return
        self.checking.begin(self.deck.engine, profile, pool, skip_checks=skip_checks)

    # Showing.

    def _show(self) -> None:
        look = self.deck.look
        ink = look.ink
        title = self.composition.title or f"new run of {self.composition.shown(self.composition.profile)}"
        self.query_one(TitleBar).show([("rankdeck", ink.strong), ("  " + title, ink.text)], self._status())
        for field in self.query(Field):
            wrong = isinstance(self.error, FieldError) and self.error.field == field.key
            field.show_error(
                self.error.message if wrong and self.error else "",
                self.error.hint if wrong and self.error else "",
            )
        preview = self.query_one("#preview", Lines)
        width = max(24, preview.size.width - 4)
        lines: list[Parts] = []
        if self.error is not None:
            lines += plan_view.wrapped(
                self.error.message, f"{look.glyphs.failed} ", ink.bad, ink.bad, look, width
            )
            if hint := self._hint(self.error):
                lines += plan_view.wrapped(hint, "  ", ink.warn, ink.warn, look, width)
            lines.append([("", ink.text)])
        if self.checking.prepared is not None:
            lines += plan_view.remains_lines(self.checking.prepared.remains, look, width)
        note: Parts = []
        if self.plan is not None and not isinstance(self.error, FieldError):
            lines += plan_view.plan_lines(self.plan, self.place, look, width, asked=self.checking.done)
            note = plan_view.title_parts(self.plan, self.place, look)
        preview.set_lines(lines, note=note)

    def _hint(self, error: RankdeckError) -> str:
        """What can be done about it, with the keys that do it here."""
        if not isinstance(error, PrepareError) or not error.checks_failed:
            return error.hint
        keys = {entry.binding.id: name for name, _, entry in shown_keys(self.active_bindings)}
        check, launch = keys.get("composer.preflight", "p"), keys.get("composer.launch", "S")
        also = f"{check} shows what else was found; {launch} asks whether to launch all the same"
        return "\n  ".join(filter(None, (error.remedy, also)))

    def _status(self) -> list[Part]:
        look = self.deck.look
        ink = look.ink
        wait = look.glyphs.checking
        if self._launching.under_way:
            what = "calling it off" if self._launching.called_off else "launching"
            return [(f"{wait} {what}  ", ink.busy), (self.checking.progress, ink.dim)]
        if isinstance(self.error, FieldError):
            return [(f"{look.glyphs.failed} a field is wrong", ink.bad)]
        if self.error is not None:
            return [(f"{look.glyphs.failed} not ready", ink.bad)]
        if self.checking.prepared is not None:
            return [(f"{look.glyphs.succeeded} ready", ink.good), ("  nodes were asked", ink.dim)]
        then = "launches when checked  " if self._launch_when_checked else ""
        return [
            (then, ink.warn),
            (f"{wait} ", ink.busy),
            (self.checking.progress or "asking the nodes", ink.dim),
        ]

    # Keys.

    def action_place(self, node: int, rank: int) -> None:
        """Look at another node or rank."""
        if self.plan is not None:
            self.place = self.place.moved(self.plan, node=node, rank=rank)
            self.query_one("#preview", Lines).to_top()
            self._show()

    def action_preflight(self) -> None:
        """Every check of this profile's nodes, with what each rests on."""
        try:
            self.preflight(*composing.resolve(self.composition.library, self.composition.draft()))
        except RankdeckError as error:
            self.notify(error.message, severity="error", markup=False)

    def action_look_again(self) -> None:
        """Ask the nodes again."""
        self.error = None
        self._replan()

    def action_back(self) -> None:
        """Call a launch off; leave the field; then the composer."""
        if self._launching.called_off and self._launching.under_way:
            self.notify("It is being called off; you are told when nothing is left.", markup=False)
        elif self._launching.under_way:
            question = ConfirmScreen("Call the launch off?", QUESTION, "Call it off")
            self.app.push_screen(question, self._call_off)
        elif self._launch_when_checked:
            self._launch_when_checked = False
            self.notify("The launch is called off: nothing was started.", markup=False)
            self._show()
        elif self.focused is not None and self.focused.id != "preview":
            self.query_one("#preview").focus()
        else:
            self.dismiss(None)

    def _call_off(self, sure: bool | None) -> None:
        if sure:
            self._launching.call_off(self.deck.engine)
            self._show()

    @property
    def is_launching(self) -> bool:
        """Whether a start is under way, whose end it waits for."""
        return self._launching.under_way

    def action_launch(self) -> None:
        """Start the run, or say what is in the way."""
        if self._launching.under_way:
            return
        if isinstance(self.error, FieldError):
            self.notify(self.error.message, severity="error", markup=False)
        elif not self.checking.done and (self.checking.begun or self.error is None):
            self._launch_when_checked = True
            self._show()
        else:
            self._launch_or_ask()

    def _launch_or_ask(self) -> None:
        prepared = self.checking.prepared
        if prepared is not None and not prepared.problems:
            self._launch(prepared)
        elif self.checking.may_skip:
            shown = [f"{node}: {problem}" for node, problem in self.checking.problems]
            question = ConfirmScreen("Launch although the nodes lack something?", shown, "Launch anyway")
            self.app.push_screen(question, self._overrule)
        elif self.error is not None:
            self.notify(self.error.message, severity="error", markup=False)

    def _overrule(self, launch: bool | None) -> None:
        if launch and self._planned is not None:
            self._launch_when_checked = True
            self.error = None
            self._ask_nodes(self._planned, skip_checks=True)

    def _launch(self, prepared: Prepared) -> None:
        self._launching.begin(self.deck.engine, prepared, self.checking.say)
        self._show()

    def _take_launch(self) -> None:
        # A question over this screen is answered first: what takes this screen's place would take its.
        launched = self._launching.take() if self.is_active else None
        if launched is None:
            return
        self.error = launched.error
        if launched.told:
            self.notify(launched.told, severity="warning" if launched.error else "information", markup=False)
        if launched.run_id:
            self.deck.show_run(launched.run_id, instead=True)
