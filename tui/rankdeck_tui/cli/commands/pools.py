"""`rankdeck pools`: the saved node pools."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rankdeck_tui import words
from rankdeck_tui.cli import output, saved
from rankdeck_tui.cli.exits import EXIT_OK, EXIT_WRONG
from rankdeck_tui.cli.parser import add_set
from rankdeck_tui.cli.surroundings import library

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = "Lists saved node pools; shows one with every node; makes, edits, copies and removes them."

KIND = "pools"


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    verbs = saved.add_verbs(parser, "pool")
    new = verbs["new"]
    new.add_argument(
        "nodes", nargs="*", metavar="NODES", help="names or ranges, e.g. 'gpu[001-004]' alice@gpu007:2222"
    )
    new.add_argument("--backend", metavar="NAME", help="ssh, openssh or local (default: ssh)")
    new.add_argument("--slots", metavar="N", type=int, help="ranks a node takes (default: its GPUs, else 1)")
    new.add_argument("--interface", metavar="NAME", help="the network interface to use, e.g. ib0")
    add_set(new)
    add_set(verbs["edit"])


def run(args: Namespace) -> int:
    """Does what the verb says."""
    match args.verb:
        case "show":
            return _show(args)
        case "new":
            return _new(args)
        case "edit":
            return _edit(args)
        case "copy":
            return saved.copy(library(), KIND, args)
        case "remove":
            return saved.remove(library(), KIND, args)
        case _:
            return _list(args)


def as_json(pool: Pool) -> dict[str, Any]:
    """A pool with every node."""
    return {
        "name": pool.name,
        "path": str(pool.source) if pool.source else None,
        "backend": str(pool.backend),
        "slots": pool.slots,
        "interface": pool.interface,
        "nodes": [
            {"name": node.name, "host": node.host, "user": node.user, "port": node.port}
            for node in pool.nodes
        ],
    }


def _list(args: Namespace) -> int:
    contents = library().contents()
    pools = contents.pools
    if args.json:
        output.print_json([as_json(pool) for pool in pools])
    elif pools:
        output.print_table(
            ("POOL", "BACKEND", "NODES", "SLOTS", "FIRST NODE", "FILE"),
            [
                (
                    pool.name,
                    str(pool.backend),
                    str(len(pool.nodes)),
                    "auto" if pool.slots is None else str(pool.slots),
                    pool.nodes[0].name if pool.nodes else "-",
                    str(pool.source or ""),
                )
                for pool in pools
            ],
        )
    else:
        output.say("no pools yet: \"rankdeck pools new lab 'n[1-4]' --backend ssh\" saves one")
    return EXIT_WRONG if saved.list_broken(contents.broken, KIND) else EXIT_OK


def _show(args: Namespace) -> int:
    pool = library().pool(args.name)
    if args.json:
        output.print_json(as_json(pool))
        return EXIT_OK
    slots = "as many ranks a node as it has GPUs, else 1" if pool.slots is None else f"{pool.slots} a node"
    print(output.printable(f"pool {pool.name}: {pool.backend}, {words.plural(len(pool.nodes), 'node')}"))
    print(f"slots: {slots}")
    if pool.interface is not None:
        print(output.printable(f"interface: {pool.interface}"))
    if pool.source is not None:
        print(output.printable(f"file: {pool.source}"))
    print()
    output.print_table(
        ("NODE", "HOST", "USER", "PORT"),
        [
            (node.name, node.host, node.user or "-", "-" if node.port is None else str(node.port))
            for node in pool.nodes
        ],
    )
    return EXIT_OK


def _new(args: Namespace) -> int:
    from rankdeck_profiles import edit

    given = {
        "backend": args.backend or "ssh",
        "nodes": args.nodes,
        "slots": args.slots,
        "interface": args.interface,
    }
    return saved.new(KIND, args, given, edit.new_pool)


def _edit(args: Namespace) -> int:
    from rankdeck_profiles import edit

    return saved.edit(KIND, args, edit.write_pool, lambda: library().pool(args.name))
