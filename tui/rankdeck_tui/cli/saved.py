"""What `rankdeck profiles` and `rankdeck pools` have in common: saved files listed, made, edited, removed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_OK
from rankdeck_tui.cli.surroundings import library

if TYPE_CHECKING:
    from rankdeck_profiles.library import Broken, Library
    from rankdeck_tui.cli.parser import CommandParser

Writer = Callable[[Path, Mapping[str, Any]], object]
"""One of `rankdeck_profiles.edit`: takes a file and the keys to set in it."""


class EditorError(RankdeckError):
    """The editor can't be started, or failed."""


def add_verbs(parser: CommandParser, kind: str) -> dict[str, CommandParser]:
    """Adds the subcommands; `show` and `new` get their own arguments from the caller.

    Args:
        parser: the command's parser.
        kind: `profile` or `pool`.

    Returns:
        The subcommands' parsers, by name.
    """
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs (without one: list)")
    parsers = {
        "show": verbs.add_parser("show", help=f"show one {kind}"),
        "new": verbs.add_parser("new", help=f"save a new {kind}"),
        "edit": verbs.add_parser("edit", help=f"change a {kind}: $EDITOR, or --set"),
        "copy": verbs.add_parser("copy", help=f"save a {kind} under another name too"),
        "remove": verbs.add_parser("remove", help=f"delete a saved {kind}"),
    }
    for name, sub in parsers.items():
        sub.add_argument(
            "name", metavar="NAME", help=f"the {kind}'s name" if name != "show" else "its name or path"
        )
    # A verb's own default would take back what stands before it: `rankdeck pools --json show lab`.
    parsers["show"].add_argument(
        "--json", action="store_true", default=SUPPRESS, help="print one JSON document on stdout"
    )
    parsers["copy"].add_argument("new_name", metavar="NEW", help="the copy's name")
    parsers["remove"].add_argument("--yes", action="store_true", help="do not ask, even on a terminal")
    return parsers


def settings(texts: list[str]) -> dict[str, Any]:
    """`--set KEY=VALUE` texts as changes for `rankdeck_profiles.edit`: dotted key to value.

    Raises:
        ProfileError: one has no `=`, or no key before it.
    """
    from rankdeck_profiles.overrides import parse_override

    return {
        override.text.partition("=")[0].strip(): override.value for override in map(parse_override, texts)
    }


def list_broken(broken: Sequence[Broken], kind: str) -> int:
    """Tells of the files of one kind that can't be used. Returns how many there are."""
    of_kind = [entry for entry in broken if entry.kind == kind]
    for entry in of_kind:
        output.error(entry.error.message, entry.error.hint)
    return len(of_kind)


def new(kind: str, args: Namespace, given: Mapping[str, Any], write: Writer) -> int:
    """Saves a new file.

    Args:
        kind: `profiles` or `pools`.
        args: the name, and `--set` values, which win.
        given: what the other options say; what was not given is None or empty.
        write: writes the file, after checking it.
    """
    values = {key: value for key, value in given.items() if value not in (None, [])}
    path = library().new_path(kind, args.name)
    write(path, {**values, **settings(args.overrides)})
    output.say(f"saved {path}")
    return EXIT_OK


def edit(kind: str, args: Namespace, write: Writer, check: Callable[[], object]) -> int:
    """Changes a saved file: the `--set` values, or without any in the person's editor.

    Args:
        kind: `profiles` or `pools`.
        args: the name and the `--set` values.
        write: writes changes into the file, after checking them.
        check: reads what the editor left, to tell what is wrong with it.
    """
    path = library().path(kind, args.name)
    if not args.overrides:
        return edit_by_hand(path, check)
    write(path, settings(args.overrides))
    output.say(f"saved {path}")
    return EXIT_OK


def edit_by_hand(path: Path, check: Callable[[], object]) -> int:
    """Opens a file in the person's editor and checks what comes out.

    Args:
        path: the file.
        check: reads it, raising RankdeckError if it can't be used.

    Raises:
        EditorError: there is no editor, or it failed.
        RankdeckError: what was saved can't be used; it is left as it is.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if sys.stdin.isatty() else "")
    if not editor.strip():
        raise EditorError("no editor: neither VISUAL nor EDITOR is set", "change keys with --set KEY=VALUE")
    try:
        status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as problem:
        raise EditorError(
            f"the editor {editor!r} can't be started: {problem}", "set EDITOR to another"
        ) from None
    if status:
        raise EditorError(f"the editor {editor!r} ended with status {status}")
    check()
    return EXIT_OK


def copy(saved: Library, kind: str, args: Namespace) -> int:
    """Saves a file under another name too."""
    output.say(f"saved {saved.copy(kind, args.name, args.new_name)}")
    return EXIT_OK


def remove(saved: Library, kind: str, args: Namespace) -> int:
    """Deletes a saved file, after asking where there is somebody to ask."""
    path = saved.path(kind, args.name)
    if sys.stdin.isatty() and not args.yes:
        output.prompt(f"delete {path}? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            output.say("not deleted")
            return EXIT_FAILED
    saved.remove(kind, args.name)
    output.say(f"deleted {path}")
    return EXIT_OK
