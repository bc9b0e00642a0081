"""The command `rankdeck`: runs the command that was typed, and turns errors into messages and exit statuses.

A command's module is imported only when that command is typed, so `rankdeck runs` and `rankdeck --help` start
about as fast as Python itself.
"""

from __future__ import annotations

import sys

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import commands, output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WRONG, UNWRITABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the process's exit status.

    Args:
        argv: what follows `rankdeck` on the command line; None: this process's own.

    Returns:
        0 done or the run succeeded, 1 the run failed, 2 the command line or a file is wrong, 3 nodes could
        not be reached, 130 interrupted.
    """
    output.prepare_streams()
    try:
        status = dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except RankdeckError as error:
        output.error(error.message, error.hint)
        return error.exit_status
    except BrokenPipeError:
        # `rankdeck runs | head -1`: the reader has seen enough.
        output.forget_stdout()
        return 0
    except OSError as problem:
        # A folder of ours that can't be read or written: nothing a traceback would explain better.
        if problem.filename is None:
            if problem.errno not in UNWRITABLE:
                raise
            output.forget_stdout()
            output.error(f"standard output can't be written: {problem.strerror}")
            return EXIT_FAILED
        output.error(f"{problem.filename}: {problem.strerror}")
        return EXIT_WRONG
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status


def dispatch(arguments: list[str]) -> int:
    """Runs the command that `arguments` names; without one, opens the screen."""
    if not arguments:
        from rankdeck_tui.cli.screen import open_screen

        return open_screen()
    name = arguments[0]
    if name in ("-h", "--help", "help"):
        print(commands.usage())
        return 0
    if name in ("-V", "--version", "version"):
        from rankdeck_tui import __version__

        print(f"rankdeck {__version__}")
        return 0
    if name.startswith("-"):
        output.error(
            f"unknown option {name}", "'rankdeck --help' lists the commands; options follow the command"
        )
        return EXIT_WRONG
    if name not in commands.NAMES:
        output.error(f"unknown command {name!r}", _what_exists(name))
        return EXIT_WRONG
    from rankdeck_tui.cli.parser import CommandParser

    command = commands.load(name)
    parser = CommandParser(prog=f"rankdeck {name}", description=command.DESCRIPTION)
    command.configure(parser)
    return command.run(parser.parse(arguments[1:]))


def _what_exists(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, commands.NAMES, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}commands: {', '.join(commands.NAMES)}"
