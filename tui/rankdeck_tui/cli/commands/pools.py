"""`rankdeck pools`: the saved node pools."""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankdeck_profiles import ranges
from rankdeck_profiles.errors import PoolError
from rankdeck_tui import words
from rankdeck_tui.cli import output, pool_source, saved
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
    new.intermixed = True
    pool_source.add_source(new)
    new.add_argument("--backend", metavar="NAME", help="ssh, openssh or local (default: ssh)")
    new.add_argument("--slots", metavar="N", type=int, help="ranks a node takes (default: its GPUs, else 1)")
    new.add_argument("--interface", metavar="NAME", help="the network interface to use, e.g. ib0")
    new.add_argument(
        "--json", action="store_true", default=SUPPRESS, help="print what was understood as JSON"
    )
    add_set(new, "give one more key")
    add_set(verbs["edit"], "change one key")


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
            {
                "name": node.name,
                "host": node.host,
                "user": node.user,
                "port": node.port,
                "slots": pool.slots if node.slots is None else node.slots,
                "gpus": None if node.gpus is None else list(node.gpus),
                "gpus_left_out": list(node.hidden_gpus),
            }
            for node in pool.nodes
        ],
        "notes": list(pool.notes),
    }


def _list(args: Namespace) -> int:
    from rankdeck_profiles.pools import LOCAL, local_pool

    contents = library().contents()
    taken = LOCAL in library().paths(KIND)
    pools = [*contents.pools, *([] if taken else [local_pool()])]
    if args.json:
        output.print_json([as_json(pool) for pool in pools])
    else:
        output.print_table(
            ("POOL", "BACKEND", "NODES", "SLOTS", "FIRST NODE", "FILE"),
            [
                (
                    pool.name,
                    str(pool.backend),
                    str(len(pool.nodes)),
                    words.slots(pool),
                    pool.nodes[0].name if pool.nodes else "-",
                    str(pool.source or "none: it is always there"),
                )
                for pool in pools
            ],
        )
    if not contents.pools and not args.json:
        output.say("no pools saved yet: \"rankdeck pools new lab 'n[1-4]' --backend ssh\" saves one")
    return EXIT_WRONG if saved.list_broken(contents.broken, KIND) else EXIT_OK


def _show(args: Namespace) -> int:
    pool = library().pool(args.name)
    if args.json:
        output.print_json(as_json(pool))
        return EXIT_OK
    own = any(node.slots is not None for node in pool.nodes)
    slots = (
        f"{words.slots(pool)}, as listed below"
        if own
        else "as many ranks a node as it has GPUs, else 1"
        if pool.slots is None
        else f"{pool.slots} a node"
    )
    print(output.printable(f"pool {pool.name}: {pool.backend}, {words.plural(len(pool.nodes), 'node')}"))
    print(f"slots: {slots}")
    if pool.interface is not None:
        print(output.printable(f"interface: {pool.interface}"))
    if pool.source is not None:
        print(output.printable(f"file: {pool.source}"))
    print()
    output.print_table(
        ("NODE", "HOST", "USER", "PORT", "SLOTS", "GPUS"),
        [
            (
                node.name,
                node.host,
                node.user or "-",
                "-" if node.port is None else str(node.port),
                words.slots_of(node, pool),
                words.gpus_of(node),
            )
            for node in pool.nodes
        ],
    )
    for note in pool.notes:
        output.warning(note)
    return EXIT_OK


def _new(args: Namespace) -> int:
    from rankdeck_profiles import edit

    given: dict[str, Any] = {"backend": args.backend or "ssh", "interface": args.interface}
    if args.source is None:
        _refuse_without_source(args)
        given |= {"nodes": _entries(args.nodes), "slots": args.slots}
        return saved.new(KIND, args, given, edit.new_pool)
    library().new_path(KIND, args.name)  # a name that is taken is told before anything is asked
    found = pool_source.understood(args)
    if not args.json:
        pool_source.show(found)
    status = saved.new(KIND, args, {**given, **pool_source.keys(found, args.slots)}, edit.new_pool)
    if args.json:
        path = library().path(KIND, args.name)
        output.print_json(pool_source.document(found, args.source, str(path)))
    return status


def _refuse_without_source(args: Namespace) -> None:
    named = [option for option in ("format", "duplicates") if getattr(args, option) is not None]
    if named:
        raise PoolError(f"--{named[0]} is about a host file, and none is given", "name it: --from FILE")


def _edit(args: Namespace) -> int:
    from rankdeck_profiles import edit

    return saved.edit(KIND, args, edit.write_pool, lambda: library().pool(args.name))


def _entries(typed: Sequence[str]) -> list[str]:
    """Entries as typed; `gpu[1-4],gpu9`, as NodeSet and Slurm write it, is several."""
    return [entry for text in typed for entry in ([text] if text.split()[1:] else ranges.split(text))]
