"""What a dashboard's logs ask of their screen: texts to be typed, the lines of many ranks, what to bring."""

from __future__ import annotations

from textual import on
from textual.binding import Binding

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.live import LiveRun
from rankdeck_tui import rank_choice
from rankdeck_tui.logs.of_run import RunLogs
from rankdeck_tui.logs.tiles import Fold, Stream, Target
from rankdeck_tui.screens.base import DeckScreen
from rankdeck_tui.widgets.log_board import Arrangement, Ask, LogBoard
from rankdeck_tui.widgets.prompt import Prompt

_HINTS = {
    Ask.FILTER: "!text inverts  enter keep  esc clear",
    Ask.SEARCH: "enter searches back  esc clear",
    Ask.RANKS: "0,3-5  node:NAME  failed  all",
}


class MergedScreen(DeckScreen):
    """A screen with a log board."""

    live: LiveRun | None
    logs: RunLogs
    board: LogBoard
    _ours: Arrangement | None
    """The tiles as the screen opened them: they make room."""

    def key_words(self, binding: Binding) -> str:
        """Folding is named only where there are many ranks' lines to fold."""
        tile = self.board.tile
        if binding.action == "fold":
            many = tile is not None and bool(tile.target.many)
            return "" if not many or tile is None else "fold" if tile.fold is Fold.LINES else "by time"
        return super().key_words(binding)

    @on(LogBoard.TargetsChanged)
    def _watch(self) -> None:
        if self.live is not None:
            shown = self.board.targets()
            many = [rank for target in shown if target.many for rank in self.logs.ranks(target)]
            one = [target.rank for target in shown if target.rank is not None]
            self.live.watch([*one, *many], timed=many)

    @on(LogBoard.TextWanted)
    def _ask_text(self, message: LogBoard.TextWanted) -> None:
        self._prompt(message.ask, message.text)

    def _prompt(self, ask: Ask, text: str) -> None:
        self.query_one(Prompt).ask(str(ask), text, _HINTS[ask], back_to=self.board)

    @on(Prompt.Typed)
    def _typed(self, message: Prompt.Typed) -> None:
        self.board.set_text(Ask(message.purpose), message.text)

    @on(Prompt.Ended)
    def _ended(self, message: Prompt.Ended) -> None:
        board = self.board
        board.set_text(Ask(message.purpose), message.text)
        if message.kept and message.purpose == Ask.SEARCH and message.text:
            board.action_search(True)
        if message.kept and message.purpose == Ask.RANKS and message.text.strip():
            self._open_many(message.text.strip())

    def action_merged(self) -> None:
        """The lines of all ranks in the focused tile, or in the one that has them."""
        self._open_many(rank_choice.ALL)

    def action_merged_ranks(self) -> None:
        """Ask whose lines."""
        tile = self.board.tile
        self._prompt(Ask.RANKS, tile.target.many if tile and tile.target.many else "")

    def _open_many(self, choice: str) -> None:
        if self.live is None:
            return
        try:
            rank_choice.chosen(choice, self.live.snapshot())
        except RankdeckError as error:
            self.notify(f"{error.message}. {error.hint}", severity="error", markup=False)
            return
        # A tile of many ranks is wide: it stays the one tile of them.
        for index, tile in enumerate(self.board.tiles):
            if tile.target.many:
                self.board.focused_tile = index
        if self.board.arrangement() == self._ours:
            self.board.keep_one()
        self.board.open(Target(many=choice), stream=Stream.BOTH)
        self.show_logs()

    def show_logs(self) -> None:
        """Bring the logs into view and give them the keys."""
        self.board.focus()
