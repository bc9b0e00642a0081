"""argparse in rankdeck's manner: errors read like every other error, options mean the same everywhere."""

from __future__ import annotations

import argparse
import os

from rankdeck_tui.cli import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from rankdeck_profiles.selection import Choice


class CommandParser(argparse.ArgumentParser):
    """Parses the arguments of one command."""

    def __init__(self, **settings: object) -> None:
        # Abbreviated options would break scripts the day a second option with that beginning appears.
        super().__init__(allow_abbrev=False, formatter_class=_formatter, **settings)  # type: ignore[arg-type]

    intermixed = False
    """Whether positional arguments may stand before and after options: `pools new lab --slots 2 n1 n2`.

    argparse hands an optional positional its (empty) share with the first group of words otherwise."""
    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, also of a verb's arguments."""
        if not self.intermixed or self._mixing:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    takes_rest = False
    """Whether what follows `--` is the user's own program's, and handed on as `args.rest`."""

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """Parses what follows the command's name."""
        cut = arguments.index("--") if self.takes_rest and "--" in arguments else len(arguments)
        args = self.parse_args(arguments[:cut])
        args.rest = arguments[cut + 1 :]
        return args

    def error(self, message: str) -> NoReturn:
        """Says what is wrong with the command line and ends with exit status 2."""
        usage = " ".join(self.format_usage().split())
        output.error(message, usage)
        self.exit(2)


def _formatter(prog: str) -> argparse.HelpFormatter:
    # argparse asks shutil for the terminal's width: an import that takes as long as reading all runs.
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (ValueError, OSError):
        columns = 80
    return argparse.HelpFormatter(prog, width=max(columns - 2, 40))


def add_json(parser: argparse.ArgumentParser, what: str = "one JSON document on stdout") -> None:
    """`--json`, for commands that print data."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """PROFILE, `--pool` and `--set`, for commands that plan or launch."""
    parser.add_argument("profile", metavar="PROFILE", help="a saved profile's name, or a TOML file")
    parser.add_argument("--pool", metavar="POOL", help="node pool to use instead of the profile's own")
    add_choice(parser)
    add_set(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """`--nodes`, `--include` and `--exclude`: some nodes of the pool, and some of their GPUs."""
    parser.add_argument(
        "--nodes",
        metavar="NODES",
        help="only these nodes of the pool, the head first: names, ranges, @groups",
    )
    parser.add_argument(
        "--include", metavar="WHAT", help="only these nodes and GPUs: n1@n2:0,2 is all of n1, two GPUs of n2"
    )
    parser.add_argument("--exclude", metavar="WHAT", help="all but these nodes and GPUs, written likewise")


def choice_of(args: argparse.Namespace) -> Choice:
    """What `add_choice`'s options say."""
    from rankdeck_profiles.selection import Choice

    return Choice(args.nodes, args.include, args.exclude)


def add_set(parser: argparse.ArgumentParser, what: str = "change one key for this time") -> None:
    """`--set KEY=VALUE`, as often as wanted.

    Args:
        parser: of the command that takes it.
        what: what it does there.
    """
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help=f"{what}, e.g. --set nodes=2 (a TOML value, else text)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a run id, the first characters of one, or 'last'")


def seconds(text: str) -> float:
    """A length of time such as `30s`, `2m`, `1h`, `500ms` or a number of seconds; for argparse's `type`."""
    from rankdeck_profiles import durations

    try:
        return durations.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
