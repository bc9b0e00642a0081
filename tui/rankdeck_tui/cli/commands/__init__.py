"""One module a command. Each gives DESCRIPTION, `configure(parser)` and `run(args) -> exit status`."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes as long as everything else here together
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Protocol

    from rankdeck_tui.cli.parser import CommandParser

    Arguments = Namespace

    class Command(Protocol):
        """What a command's module holds."""

        DESCRIPTION: str

        def configure(self, parser: CommandParser) -> None:
            """Adds the command's arguments."""

        def run(self, args: Arguments) -> int:
            """Does it. Returns the exit status; raises RankdeckError with a message for the person."""


_SUMMARIES = {
    "demo": "run a real 2-node x 2-rank PyTorch DDP training on this machine",
    "profiles": "list, show, make, edit, copy and remove saved profiles",
    "pools": "the same for node pools",
    "plan": "show the launch plan: command and environment of every node",
    "check": "say what would break a run: nodes, network, GPUs, limits, versions",
    "run": "launch a profile and follow it",
    "runs": "list runs, newest first; --prune removes old ones",
    "show": "show a run's state, nodes, ranks and exit codes",
    "logs": "print what ranks wrote",
    "metrics": "show the numbers in a run's logs: loss, lr, samples/s, over its ranks",
    "collect": "bring every log of a run here, and verify it",
    "attach": "open the screen on a run",
    "stop": "stop a run on all its nodes",
    "gpus": "show the nodes' GPUs",
}
NAMES = tuple(_SUMMARIES)
"""The commands that can be typed, in the order they are listed."""


def load(name: str) -> Command:
    """Imports the module of one command."""
    from importlib import import_module

    command: Command = import_module(f"rankdeck_tui.cli.commands.{name}")
    return command


def usage() -> str:
    """What `rankdeck --help` prints."""
    width = max(map(len, NAMES))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in _SUMMARIES.items()]
    return "\n".join(
        [
            "usage: rankdeck [COMMAND] [ARGUMENTS]",
            "",
            "Launches, watches and keeps distributed training runs. Without a command, opens the screen.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  -h, --help     show this help ('rankdeck COMMAND --help' shows a command's own)",
            "  -V, --version  show the version",
            "",
            "RUN is a run id, the first characters of one, or 'last'.",
            "PROFILE is a saved profile's name or a TOML file.",
            "Exit status: 0 done or succeeded, 1 the run or a check failed, 2 command line or file wrong,",
            "3 nodes could not be reached, 130 interrupted.",
        ]
    )
