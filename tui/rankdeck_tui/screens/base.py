"""What the screens share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.binding import Binding
from textual.screen import Screen

from rankdeck_profiles.errors import RankdeckError

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_runs.live import LiveRun
    from rankdeck_tui.app import RankdeckApp


class DeckScreen(Screen[None]):
    """A full screen of rankdeck."""

    AUTO_FOCUS = ""

    live: LiveRun | None = None
    """The followed run that it shows, once there is one."""

    @property
    def deck(self) -> RankdeckApp:
        """The app, with its engine, records and library."""
        return cast("RankdeckApp", self.app)

    def key_words(self, binding: Binding) -> str:
        """What the line of keys says of a key here and now; empty: the key is of no use here."""
        return binding.description

    def compose_again(self, run_id: str, *, launch: bool) -> None:
        """Open the composer with a run's own profile and pool, as recorded.

        Args:
            run_id: the run.
            launch: True launches it as soon as the nodes have been asked.
        """
        from rankdeck_tui.composing import Composition
        from rankdeck_tui.screens.composer import ComposerScreen

        try:
            composition = Composition.of_record(self.deck.library, self.deck.home.find(run_id), run_id)
        except RankdeckError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        self.app.push_screen(ComposerScreen(composition, launch=launch))

    def action_metrics(self) -> None:
        """The plots of what the run's logs tell in numbers."""
        from rankdeck_tui.screens.metrics import MetricsScreen

        if self.live is not None:
            self.app.push_screen(MetricsScreen(self.live))

    def preflight(self, profile: Profile | None, pool: Pool) -> None:
        """Open the preflight of a pool, for a profile or for none."""
        from rankdeck_tui.screens.preflight import PreflightScreen

        self.app.push_screen(PreflightScreen(profile, pool))
