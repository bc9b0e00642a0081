"""The app: what all screens share. Screens do the showing, the floors below do the work."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.theme import Theme
from textual.widgets import Static

from rankdeck_tui import __version__, compat, crash
from rankdeck_tui.asking import LoginAsks, ScreenAsker
from rankdeck_tui.hang_up import watched_terminal
from rankdeck_tui.look import Look
from rankdeck_tui.look.ink import BASE
from rankdeck_tui.notices.watching import Watching
from rankdeck_tui.styles import BASE_SHEET, SHEET

if TYPE_CHECKING:
    from rankdeck_profiles.library import Library
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.home import RunHome

LOOK_EVERY = 0.5
"""Seconds between two looks at followed runs for what is to be told."""

_THEME = Theme(
    name="rankdeck",
    primary="#7fc4f5",
    secondary="#a9b6c4",
    accent="#7fc4f5",
    foreground="#cdd6e0",
    background=BASE,
    surface="#171d25",
    panel="#1d2631",
    success="#35c49a",
    warning="#e8c547",
    error="#ff7a52",
    dark=True,
)


class RankdeckApp(App[None]):
    """The screens of rankdeck."""

    TITLE = "rankdeck"
    CSS = BASE_SHEET
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual's own declaration
        (0, "-narrow"),
        (100, "-normal"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - Textual's own declaration
        (0, "-low"),
        (20, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "colon,ctrl+p", "actions", "actions", tooltip="Find any action by its name", id="always.actions"
        ),
        Binding("question_mark", "help", "help", tooltip="All keys of this screen", id="always.help"),
        Binding("ctrl+q", "quit", "Quit; runs go on", show=False, priority=True, id="app.quit"),
    ]

    def __init__(
        self,
        engine: Engine,
        home: RunHome,
        library: Library,
        open_run: str | None = None,
        *,
        look: Look | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Make the app.

        Args:
            engine: starts, follows and stops runs.
            home: the records of runs.
            library: saved profiles and pools.
            open_run: the id of a run to open at once.
            look: inks and glyphs; None: what suits the terminal.
            now: the time, unix seconds.
        """
        compat.accept_any_terminal_bytes()
        look = look or Look.for_terminal(os.environ)
        # Without colour Textual must start in its ANSI mode: switching later paints black on black.
        super().__init__(ansi_color=None if look.ink.colour else True)
        self.look = look
        self.engine = engine
        self.home = home
        self.library = library
        self.now = now
        self.open_run = open_run
        self.last_run: str | None = None
        """The run that was opened last: the list's cursor goes there when its dashboard is left."""
        self.watching = Watching(self._write_to_terminal, self._warn)
        """Tells of the runs that screens follow."""
        self.failure: BaseException | None = None
        """What ended the app, if something did."""
        self.animation_level = "none"
        self.register_theme(_THEME)
        # Assigning it would have the style sheet parsed once more before the first frame.
        self.set_reactive(App.theme, "rankdeck" if look.ink.colour else "ansi-dark")
        self.set_class(not look.ink.colour, "-plain")

    def compose(self) -> ComposeResult:
        """The first frame: a line that says what this is, while the screens are still being loaded."""
        yield Static("rankdeck", id="doorstep", markup=False)

    def on_mount(self) -> None:
        """Draw the first frame, then open the first screen."""
        self.call_after_refresh(self._enter)

    def _enter(self) -> None:
        from rankdeck_tui.screens.home import HomeScreen

        self.stylesheet.add_source(SHEET, read_from=("rankdeck", "SHEET"))
        self.refresh_css(animate=False)
        self.push_screen(HomeScreen())
        self.set_interval(LOOK_EVERY, self.watching.look)
        if not gc.isenabled():
            # What was loaded so far stays: collections need not go through it again and again.
            gc.freeze()
            gc.enable()
        if self.open_run is not None:
            self.show_run(self.open_run)

    def show_run(self, run_id: str, *, instead: bool = False) -> None:
        """Open a run's dashboard.

        Args:
            run_id: the run.
            instead: True replaces the screen in front.
        """
        from rankdeck_tui.screens.run import RunScreen

        self.last_run = run_id
        if instead:
            self.switch_screen(RunScreen(run_id))
        else:
            self.push_screen(RunScreen(run_id))

    async def action_quit(self) -> None:
        """Leave; asks first while a run is being started, since nobody would see how that ends."""
        from rankdeck_tui.screens.composer import ComposerScreen
        from rankdeck_tui.screens.confirm import ConfirmScreen

        if not (isinstance(self.screen, ComposerScreen) and self.screen.is_launching):
            self.exit()
            return
        lines = [
            "A run is being started. Nodes that have been told go on with it;",
            "of the others it waits for none longer than its barrier_timeout.",
            "`rankdeck show last` tells how it went, `rankdeck stop last` ends it.",
        ]
        self.push_screen(ConfirmScreen("Leave in the midst of a launch?", lines, "Leave"), self._leave)

    def _leave(self, answer: bool | None) -> None:
        if answer:
            self.exit()

    def action_help(self) -> None:
        """Show the keys of the screen in front."""
        from rankdeck_tui.screens.help import HelpScreen

        if not self.screen.is_modal:
            self.push_screen(HelpScreen(self.screen))

    def action_actions(self) -> None:
        """Have an action picked by name."""
        from rankdeck_tui.screens.actions import ActionsScreen

        if self.screen.is_modal:
            return
        palette = ActionsScreen(self.screen)

        async def act(key: str | None) -> None:
            if key is not None:
                chosen = palette.picked(key)
                await self.run_action(chosen.action, default_namespace=chosen.node)

        self.push_screen(palette, act)

    @on(LoginAsks)
    def _ask_for_login(self, message: LoginAsks) -> None:
        """Show what a login asks, over whatever is in front."""
        from rankdeck_tui.screens.login import dialog

        answer = message.answer

        def answered(given: object) -> None:
            if not answer.cancelled():
                answer.set_result(given)

        if not answer.cancelled():
            self.push_screen(dialog(message.question, answer), answered)

    def _write_to_terminal(self, sequence: str) -> None:
        """Write what only makes the terminal ring: between two frames, as the driver takes texts whole."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

    def _warn(self, message: str) -> None:
        self.call_later(lambda: self.notify(message, severity="warning", markup=False))

    def _fatal_error(self) -> None:
        """Keep the error for the report; Textual would print local variables, which may hold secrets."""
        self.failure = self._exception
        self._close_messages_no_wait()


def run_app(
    engine: Engine,
    home: RunHome,
    library: Library,
    open_run: str | None = None,
    asker: ScreenAsker | None = None,
) -> int:
    """Open the screens and return when they are left.

    Args:
        engine: starts, follows and stops runs; the caller closes it.
        home: the records of runs; crash reports go to `state/` beside them.
        library: saved profiles and pools.
        open_run: the id of a run to open at once.
        asker: brings the engine's questions here.

    Returns:
        The exit status: 0, or 1 after a fault of the screens, which stderr then tells of.
    """
    state = Path(home.path) / "state"
    app = RankdeckApp(engine, home, library, open_run)
    if asker is not None:
        asker.attach(app)
    with watched_terminal():
        app.run()
    if app.failure is None:
        return 0
    crash.tell(app.failure, crash.write_report(app.failure, state, __version__))
    return 1
