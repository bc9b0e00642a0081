"""`rankdeck profiles`: the saved profiles."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rankdeck_profiles.errors import ProfileError
from rankdeck_tui.cli import output, saved
from rankdeck_tui.cli.exits import EXIT_OK, EXIT_WRONG
from rankdeck_tui.cli.parser import add_set
from rankdeck_tui.cli.surroundings import library

if TYPE_CHECKING:
    from rankdeck_profiles.model import Profile
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = "Lists saved profiles; shows, makes, edits, copies and removes them."

KIND = "profiles"


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.takes_rest = True
    verbs = saved.add_verbs(parser, "profile")
    new = verbs["new"]
    new.add_argument("--framework", metavar="NAME", help="torchrun, pytorch, mpi, ... (docs/frameworks.md)")
    new.add_argument("--script", metavar="FILE", help="the Python file to run")
    new.add_argument("--module", metavar="MODULE", help="the Python module to run, instead")
    new.add_argument("--pool", metavar="POOL", help="the node pool it runs on (default: this machine)")
    new.add_argument("--nodes", metavar="N", type=int, help="how many nodes of the pool (default: all)")
    new.add_argument(
        "--procs-per-node", metavar="N", type=int, help="ranks a node (default: the node's slots)"
    )
    new.add_argument("--process-count", metavar="N", type=int, help="ranks in all, instead")
    add_set(new, "give one more key")
    new.description = "Saves a new profile. On a terminal, what is not given is asked for."
    new.usage = "rankdeck profiles new NAME [OPTIONS] [-- ARGUMENTS OF THE PROGRAM]"
    add_set(verbs["edit"], "change one key")


def run(args: Namespace) -> int:
    """Does what the verb says."""
    if args.rest and args.verb != "new":
        raise ProfileError(
            "only 'rankdeck profiles new' takes arguments after --", f"found: {' '.join(args.rest)}"
        )
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


def as_json(profile: Profile) -> dict[str, Any]:
    """A profile with every default filled in; the keys are those of the file."""
    stop = profile.stop
    return {
        "name": profile.name,
        "path": str(profile.source) if profile.source else None,
        "framework": profile.framework,
        "script": profile.script,
        "module": profile.module,
        "command": list(profile.command) or None,
        "args": list(profile.args),
        "workdir": profile.workdir,
        "python": profile.python,
        "setup": list(profile.setup),
        "pool": profile.pool,
        "nodes": profile.nodes,
        "procs_per_node": profile.procs_per_node,
        "process_count": profile.process_count,
        "master_port": "auto" if profile.master_port is None else profile.master_port,
        "env_from": list(profile.env_from),
        "env": dict(profile.env),
        "options": dict(profile.options),
        "stop": {
            "signal": stop.signal,
            "grace": stop.grace,
            "on_rank_failure": str(stop.on_rank_failure),
        },
        "metrics": dict(profile.metrics),
    }


def _list(args: Namespace) -> int:
    contents = library().contents()
    profiles = contents.profiles
    if args.json:
        output.print_json([as_json(profile) for profile in profiles])
    elif profiles:
        output.print_table(
            ("PROFILE", "FRAMEWORK", "RUNS", "POOL", "FILE"),
            [
                (
                    profile.name,
                    profile.framework,
                    _program(profile),
                    profile.pool or "-",
                    str(profile.source or ""),
                )
                for profile in profiles
            ],
        )
    else:
        output.say(
            "no profiles yet: 'rankdeck profiles new NAME --framework torchrun --script train.py' saves one"
        )
    return EXIT_WRONG if saved.list_broken(contents.broken, KIND) else EXIT_OK


def _program(profile: Profile) -> str:
    if profile.module is not None:
        return f"-m {profile.module}"
    return profile.script or " ".join(profile.command)


def _show(args: Namespace) -> int:
    profile = library().profile(args.name)
    if args.json:
        output.print_json(as_json(profile))
    elif profile.source is not None:
        output.say(f"{profile.source}:")
        print(output.printable(profile.source.read_text(encoding="utf-8-sig").rstrip("\n")))
    return EXIT_OK


def _new(args: Namespace) -> int:
    from rankdeck_profiles import edit
    from rankdeck_tui.cli import new_profile
    from rankdeck_tui.cli.questions import may_ask

    saved_profiles = library()
    saved_profiles.new_path(KIND, args.name)  # a name that can't be is told before any question
    values = {
        "framework": args.framework,
        "script": args.script,
        "module": args.module,
        "args": args.rest,
        "pool": args.pool,
        "nodes": args.nodes,
        "procs_per_node": args.procs_per_node,
        "process_count": args.process_count,
    }
    given = {key: value for key, value in values.items() if value not in (None, [])}
    given.update(saved.settings(args.overrides))
    asked = bool(new_profile.missing(given))
    if asked:
        if args.json or not may_ask():
            raise new_profile.refusal(given, saved_profiles.start_dir)
        given = new_profile.questions(args.name, given, saved_profiles)
    status = saved.new(KIND, args, given, edit.new_profile)
    if asked:
        new_profile.farewell(args.name, given["framework"])
    else:
        for doubt in new_profile.doubts(given, saved_profiles):
            output.warning(doubt)
    return status


def _edit(args: Namespace) -> int:
    from rankdeck_profiles import edit

    return saved.edit(KIND, args, edit.write_profile, lambda: library().profile(args.name))
