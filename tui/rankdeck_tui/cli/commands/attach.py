"""`rankdeck attach RUN`: the screen, on one run."""

from __future__ import annotations

from argparse import Namespace

from rankdeck_tui.cli.parser import add_run
from rankdeck_tui.cli.screen import open_screen
from rankdeck_tui.cli.surroundings import run_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = "Opens the screen on a run, whether it goes on or has ended."


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_run(parser)


def run(args: Namespace) -> int:
    """Opens the run's dashboard and returns when the screen is left."""
    return open_screen(run_home().find(args.run).id)
