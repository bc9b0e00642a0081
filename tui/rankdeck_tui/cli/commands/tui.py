"""`rankdeck` without a command: the screen."""

from __future__ import annotations

from argparse import Namespace

from rankdeck_tui.cli.screen import open_screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = "Opens the screen."


def configure(parser: CommandParser) -> None:
    """Takes no arguments."""


def run(args: Namespace) -> int:
    """Opens the home screen and returns when it is left."""
    return open_screen()
