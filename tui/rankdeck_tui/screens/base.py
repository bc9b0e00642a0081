"""What the screens share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.screen import Screen

if TYPE_CHECKING:
    from rankdeck_tui.app import RankdeckApp


class DeckScreen(Screen[None]):
    """A full screen of rankdeck."""

    AUTO_FOCUS = ""

    @property
    def deck(self) -> RankdeckApp:
        """The app, with its engine, records and library."""
        return cast("RankdeckApp", self.app)
