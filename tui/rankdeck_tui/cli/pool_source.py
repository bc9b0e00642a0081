"""`rankdeck pools new NAME --from ...`: nodes that are listed elsewhere, shown as understood, then saved."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rankdeck_profiles import hostfiles
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.hostfiles import Duplicates, Format, Hostfile
from rankdeck_profiles.hostfiles.keys import as_json, pool_keys
from rankdeck_profiles.hostfiles.model import listed
from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.questions import ask, may_ask

if TYPE_CHECKING:
    from rankdeck_tui.cli.parser import CommandParser


def add_source(parser: CommandParser) -> None:
    """`--from` and what belongs to it."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="take the nodes from a host file (its format is found out), from - (standard input), from the "
        "allocation we are inside of (slurm, pbs, lsf or sge), or from the Host names of ~/.ssh/config "
        "(ssh-config; NODES then say which, e.g. 'gpu*')",
    )
    parser.add_argument("--format", choices=[str(form) for form in Format], help="the file's format")
    parser.add_argument(
        "--duplicates",
        choices=[str(way) for way in Duplicates],
        help="a host with slots on several lines: add them up, keep the first, or stop (default)",
    )


def understood(args: Namespace) -> Hostfile:
    """What the source says, all of it readable.

    Raises:
        PoolError: there is no such source, or something in it can't be read; the lines are named.
    """
    from rankdeck_backends.pools import SSH_CONFIG, read_source

    if args.nodes and args.source != SSH_CONFIG:
        raise PoolError(
            f"nodes ({' '.join(args.nodes)}) and --from {args.source} are both given",
            "give one of the two; `rankdeck pools edit` adds nodes later",
        )
    form = Format(args.format) if args.format else None
    duplicates = Duplicates(args.duplicates or Duplicates.STOP)
    found = read_source(args.source, args.nodes, form=form, duplicates=duplicates)
    conflicts = [problem for problem in found.problems if problem.is_choice]
    if conflicts and args.duplicates is None and args.source != "-" and not args.json and may_ask():
        for problem in conflicts:
            output.warning(str(problem))
        way = ask(
            "add the slots up (sum), keep the first (first), or stop", _way, default=str(Duplicates.STOP)
        )
        if way is not Duplicates.STOP:
            found = read_source(args.source, args.nodes, form=form, duplicates=way)
    return found.checked()


def keys(found: Hostfile, slots: int | None) -> dict[str, Any]:
    """The pool's keys."""
    return pool_keys(found, slots)


def document(found: Hostfile, source: str, path: str) -> dict[str, Any]:
    """What `--json` prints: what was understood, and the file that was saved."""
    return {"source": source, "saved": path, **as_json(found)}


def show(found: Hostfile) -> None:
    """Prints what was understood: how it was read, node by node, and what was odd."""
    output.say(f"read as {found.format}: {hostfiles.TITLES[found.format]}; {found.why}")
    output.print_table(
        ("NODE", "USER", "PORT", "SLOTS", "LINE"),
        [
            (
                node.name,
                node.user or "-",
                "-" if node.port is None else str(node.port),
                "auto" if node.slots is None else str(node.slots),
                listed(found.lines[node.name]),
            )
            for node in found.nodes
        ],
    )
    for each in found.left_out:
        output.say(f"left out: {each.host} ({each.why})")
    for note in found.notes:
        output.say(f"note: {note}")
    total = (
        "their slots are counted when they are asked"
        if found.slots is None
        else words.plural(found.slots, "slot")
    )
    output.say(f"{words.plural(len(found.nodes), 'node')}, {total}")


def _way(text: str) -> Duplicates:
    try:
        return Duplicates(text or Duplicates.STOP)
    except ValueError:
        raise PoolError(f'"{text}"', f"allowed: {', '.join(Duplicates)}") from None
