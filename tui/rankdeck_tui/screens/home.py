"""The home screen: runs, profiles and pools in one look."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.notifications import SeverityLevel

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.pruning import may_go
from rankdeck_tui.look.draw import Parts
from rankdeck_tui.screens import listing, removal
from rankdeck_tui.screens.base import DeckScreen
from rankdeck_tui.screens.home_keys import key_word
from rankdeck_tui.screens.listing import Shelf
from rankdeck_tui.widgets.bars import KeyBar, TitleBar
from rankdeck_tui.widgets.detail import Detail
from rankdeck_tui.widgets.prompt import Prompt
from rankdeck_tui.widgets.table import Table

READ_EVERY = 2.0
"""Seconds between two looks at the files: a list changes rarely, and home folders may be NFS."""


class HomeScreen(DeckScreen):
    """Runs at the top, profiles and pools below."""

    class Read(Message):
        """The files were read (in a thread)."""

        def __init__(self, shelf: Shelf) -> None:
            super().__init__()
            self.shelf = shelf

    class Removed(Message):
        """A run was removed, or is not (in a thread)."""

        def __init__(self, said: str, severity: SeverityLevel) -> None:
            super().__init__()
            self.said = said
            self.severity = severity

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "open", "open", tooltip="Open the run, or compose a run of the profile", id="home.open"
        ),
        Binding(
            "n",
            "new",
            "new",
            tooltip="New run from a profile; in the lower panes a new profile or pool",
            id="home.new",
        ),
        Binding(
            "R",
            "repeat(True)",
            "launch again",
            tooltip="Launch this run again from its record, once its nodes have been asked",
            id="home.repeat",
        ),
        Binding(
            "c",
            "repeat(False)",
            "change it",
            tooltip="Compose this run again from its record: change values, then S",
            id="home.change",
        ),
        Binding("e", "edit", "edit", tooltip="Change the profile or pool", id="home.edit"),
        Binding(
            "p",
            "preflight",
            "preflight",
            tooltip="Check the nodes of the pool, or of the profile's pool for that profile",
            id="home.preflight",
        ),
        Binding("x", "stop", "stop", tooltip="Stop the run (asks first)", id="home.stop"),
        Binding(
            "D",
            "remove",
            "remove",
            tooltip="Remove the run that has ended, here and on its nodes (asks first)",
            id="home.remove",
        ),
        Binding(
            "slash", "filter", "filter", tooltip="Show only rows with this text; ! inverts", id="home.filter"
        ),
        Binding("r", "refresh", "Read the files again", show=False, id="home.refresh"),
        Binding("q", "leave", "quit", tooltip="Leave; runs go on", id="always.quit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.filter_text = ""
        self._saved = ""
        """The key of what was just saved or looked at: the cursor goes there once it has been read."""

    def compose(self) -> ComposeResult:
        """Title, three tables, a detail line, keys."""
        yield TitleBar()
        yield Table("Runs", listing.RUN_COLUMNS, id="runs")
        with Horizontal(id="saved"):
            yield Table("Profiles", listing.PROFILE_COLUMNS, id="profiles")
            yield Table("Pools", listing.POOL_COLUMNS, id="pools")
        yield Detail(id="detail")
        yield Prompt()
        yield KeyBar()

    def on_mount(self) -> None:
        """Start reading."""
        self.query_one("#runs", Table).focus()
        self._show()
        self.read_files()
        self.set_interval(READ_EVERY, self.read_files)
        self.set_interval(0.2, self._tick)

    def on_screen_resume(self) -> None:
        """Something may have been launched or saved meanwhile."""
        if self.deck.last_run is not None:
            self._saved, self.deck.last_run = f"run:{self.deck.last_run}", None
        self.read_files()

    # Reading.

    @work(thread=True, exclusive=True, group="read")
    def read_files(self) -> None:
        """Read runs, profiles and pools, off the screen's own loop."""
        self.post_message(self.Read(listing.read_shelf(self.deck.home, self.deck.library, self.deck.engine)))
        # What is made or loaded when it is first needed, engine and checks, is here: no key waits for it.
        _ = self.deck.engine.prepare
        import_module("rankdeck_tui.screens.preflight")
        self.deck.watching.prepare(self.deck.library.config_dir)

    @on(Read)
    def _take(self, message: Read) -> None:
        self.shelf = message.shelf
        for live in self.shelf.live.values():
            self.deck.watching.add(live)
        self._show()
        for table in self.query(Table):
            if self._saved and table.select(self._saved):
                self._saved = ""
                table.focus()

    def _tick(self) -> None:
        if self.is_current:
            self._show()

    # Showing.

    def _show(self) -> None:
        look, now = self.deck.look, self.deck.now()
        keep = listing.keeper(self.filter_text)
        narrow = self.size.width < 100
        runs = self.query_one("#runs", Table)
        rows = [listing.run_row(run, self.shelf, look, now) for run in self.shelf.runs]
        runs.set_rows(
            [row for row in rows if keep(row)], empty=listing.no_runs(self.shelf, look, self.filter_text)
        )
        profiles = self.query_one("#profiles", Table)
        rows = listing.profile_rows(self.shelf, look)
        profiles.set_rows(
            [row for row in rows if keep(row)], empty=listing.no_profiles(self.shelf, look, self.filter_text)
        )
        pools = self.query_one("#pools", Table)
        rows = listing.pool_rows(self.shelf, look)
        pools.set_rows(
            [row for row in rows if keep(row)], empty=listing.no_pools(self.shelf, look, self.filter_text)
        )
        note: Parts = [(f"/{self.filter_text}", look.ink.accent)] if self.filter_text else []
        for table in (runs, profiles, pools):
            if table.note != note:
                table.note = note
                table.repaint()
        self.query_one(TitleBar).show(
            [("rankdeck", look.ink.strong)],
            listing.summary(self.shelf, look, str(self.deck.home.path), short=narrow),
        )
        self.query_one(Detail).show(self._detail())
        self.query_one(KeyBar).renew()

    def _detail(self) -> list[Parts]:
        table = self._table()
        key = table.cursor_key if table else None
        return [] if key is None else listing.detail(key, self.shelf, self.deck.look, self.deck.now())

    def _table(self) -> Table | None:
        return self.focused if isinstance(self.focused, Table) else None

    @on(Table.Moved)
    def _moved(self) -> None:
        self.query_one(Detail).show(self._detail())
        self.query_one(KeyBar).renew()

    def key_words(self, binding: Binding) -> str:
        """Each pane has keys of its own, and names for what the others do there."""
        table = self._table()
        if table is None or table.id is None or binding.id is None:
            return binding.description
        word = key_word(binding.id, table.id, table.cursor_key, self.shelf)
        return binding.description if word is None else word

    # Keys.

    @on(Table.Chosen)
    def _chosen(self, message: Table.Chosen) -> None:
        self._open(message.key)

    def action_open(self) -> None:
        """Open what the cursor is on."""
        table = self._table()
        if table is not None and table.cursor_key is not None:
            self._open(table.cursor_key)

    def _open(self, key: str) -> None:
        kind, name = listing.parts_of(key)
        if kind == "run":
            self.deck.show_run(name)
        elif kind == "profile":
            self._open_composer(profile=name)
        elif kind == "pool":
            self._open_composer(pool=name)
        else:
            self.action_edit()

    def action_new(self) -> None:
        """New run; in the lower panes a new profile or pool."""
        table = self._table()
        where = table.id if table is not None else "runs"
        if where == "pools":
            self._form("pool", None)
        elif where == "profiles" or not self.shelf.profiles:
            self._form("profile", None)
        else:
            self._open_composer()

    def action_edit(self) -> None:
        """Change the profile or pool under the cursor."""
        table = self._table()
        kind, name = listing.parts_of(table.cursor_key if table and table.cursor_key else "run:")
        if kind == "broken":
            broken = self.shelf.broken_by_key(f"{kind}:{name}")
            if broken is not None:
                self.notify(f"Mend {broken.path} in an editor, then press r.", markup=False)
        elif kind in ("profile", "pool"):
            self._form(kind, name)
        else:
            self.notify("A run's record is not changed. c composes it again.", markup=False)

    def action_preflight(self) -> None:
        """Check the pool under the cursor, or the profile on its pool."""
        table = self._table()
        kind, name = listing.parts_of(table.cursor_key if table and table.cursor_key else "none:")
        if kind not in ("pool", "profile"):
            self.notify("Put the cursor on a pool, or on a profile, first.", markup=False)
            return
        library = self.deck.library
        try:
            profile = library.profile(name) if kind == "profile" else None
            pool = library.pool_for(profile) if profile is not None else library.pool(name)
        except RankdeckError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        self.preflight(profile, pool)

    def action_repeat(self, launch: bool) -> None:
        """Launch the run under the cursor again, or compose it again."""
        run = self._run_under_cursor()
        if run is not None:
            self.compose_again(run, launch=launch)

    def action_stop(self) -> None:
        """Stop the run under the cursor."""
        run = self._run_under_cursor()
        if run is None:
            return
        if any(each.id == run and listing.has_ended(each) for each in self.shelf.runs):
            self.notify("This run has ended: there is nothing to stop.", markup=False)
            return
        from rankdeck_tui.screens.stop import StopScreen

        self.app.push_screen(StopScreen(run))

    def action_remove(self) -> None:
        """Remove the run under the cursor, here and on its nodes."""
        name = self._run_under_cursor()
        run = next((each for each in self.shelf.runs if each.id == name), None)
        if run is None:
            return
        if not may_go(run):
            self.notify("A run that goes on, or may, is not removed: x stops it.", markup=False)
            return
        from rankdeck_tui.screens.confirm import ConfirmScreen

        def answered(yes: bool | None) -> None:
            if yes:
                self._remove(run.id)

        self.app.push_screen(ConfirmScreen(f"Remove {run.id}?", removal.question(run), "Remove"), answered)

    @work(thread=True, group="remove")
    def _remove(self, run_id: str) -> None:
        try:
            said, left = removal.outcome(run_id, self.deck.engine.remove(run_id).result())
            self.post_message(self.Removed(said, "warning" if left else "information"))
        except RankdeckError as error:
            self.post_message(self.Removed(f"{error.message}\n{error.hint}", "error"))
        except OSError as error:
            self.post_message(self.Removed(f"{error.filename}: {error.strerror}", "error"))

    @on(Removed)
    def _removed(self, message: Removed) -> None:
        self.notify(message.said, severity=message.severity, markup=False)
        self.read_files()

    def action_filter(self) -> None:
        """Type a filter for all three tables."""
        self.query_one(Prompt).ask("filter", self.filter_text, "enter keep  esc clear", back_to=self.focused)

    @on(Prompt.Typed)
    def _typed(self, message: Prompt.Typed) -> None:
        self.filter_text = message.text
        self._show()

    @on(Prompt.Ended)
    def _ended(self, message: Prompt.Ended) -> None:
        if not message.kept:
            self.filter_text = ""
        self._show()

    def action_refresh(self) -> None:
        """Read the files now."""
        self.read_files()

    def action_leave(self) -> None:
        """Leave. Nothing is asked: runs go on."""
        self.app.exit()

    def _run_under_cursor(self) -> str | None:
        table = self.query_one("#runs", Table)
        kind, name = listing.parts_of(table.cursor_key or "none:")
        if self._table() is not table or kind != "run":
            self.notify("Put the cursor on a run first.", markup=False)
            return None
        return name

    def _open_composer(self, profile: str | None = None, pool: str | None = None) -> None:
        from rankdeck_tui.composing import Composition
        from rankdeck_tui.screens.composer import ComposerScreen

        names = [entry.name for entry in self.shelf.profiles]
        if not names:
            self.notify("There is no profile yet: make one first (n in the Profiles pane).", markup=False)
            return
        chosen = profile or names[0]
        self.app.push_screen(ComposerScreen(Composition(self.deck.library, chosen, pool)))

    def _form(self, kind: str, name: str | None) -> None:
        from rankdeck_tui.screens.pool_form import PoolForm
        from rankdeck_tui.screens.profile_form import ProfileForm

        screen = ProfileForm(name) if kind == "profile" else PoolForm(name)

        def closed(saved: str | None) -> None:
            self._saved = f"{kind}:{saved}" if saved else ""
            self.read_files()

        self.app.push_screen(screen, closed)
