"""`rankdeck check`: preflight of a pool, of a profile on its pool, or of recorded nodes."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_OK, EXIT_UNREACHED
from rankdeck_tui.cli.parser import add_choice, add_json, add_set, choice_of

if TYPE_CHECKING:
    from rankdeck_runs.checking import Checked
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Looks at the nodes and lets them try each other, and says what would break, hang or slow down a run: "
    "each with what was found, how it would have shown in the run, and what to do. Nothing is started or "
    "changed. The exit status is 1 if a check failed, 3 if a node could not be reached."
)
DEFAULT_FRAMEWORK = "torchrun"


class CheckError(RankdeckError):
    """The command line asks for what can't be."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "profile", nargs="?", metavar="PROFILE", help="check what this profile needs, on its pool"
    )
    parser.add_argument("--pool", metavar="POOL", help="the pool (default: the profile's, else this machine)")
    add_choice(parser)
    add_set(parser)
    parser.add_argument(
        "--framework", metavar="NAME", help="without a profile: for which framework (default: torchrun)"
    )
    parser.add_argument(
        "--record",
        metavar="DIR",
        type=_named,
        help="also save what was read, one file a node, secrets left out",
    )
    parser.add_argument(
        "--replay",
        metavar="FILE",
        type=_named,
        nargs="+",
        help="judge recorded nodes, the head first; nothing is contacted",
    )
    parser.add_argument(
        "--explain", metavar="ID", help="print what a check reads, its rule, why, and the source"
    )
    parser.add_argument(
        "--active",
        choices=["torch", "mpi"],
        help="also have pairs of nodes send data, by NCCL or Gloo, or by mpi4py; says the cost first",
    )
    parser.add_argument("--yes", action="store_true", help="with --active: don't ask")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="with --active: the nodes' Python (default: the profile's, else python3)",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown, to paste into a ticket")
    add_json(parser)


def run(args: Namespace) -> int:
    """Checks, and prints what was found."""
    _refuse_what_excludes(args)
    if args.explain is not None:
        return _explain(args.explain, as_json=args.json)
    if args.record is not None:
        from rankdeck_runs import recorded

        recorded.make_folder(args.record)
    checked, title = _replayed(args) if args.replay is not None else _live(args)
    _show(args, checked, title)
    if args.record is not None:
        _record(args.record, checked)
    if checked.unreached or checked.unread:
        return EXIT_UNREACHED
    from rankdeck_backends.preflight.finding import Verdict

    return EXIT_FAILED if checked.report.verdict is Verdict.FAIL else EXIT_OK


def _named(text: str) -> Path:
    """A file or folder; an empty text would be the current folder."""
    if not text.strip():
        raise ArgumentTypeError("a name is expected, and this one is empty; `.` is the current folder")
    return Path(text)


def _refuse_what_excludes(args: Namespace) -> None:
    if args.explain is not None and (beside := _beside_explain(args)):
        raise CheckError(
            f"--explain prints what a check is about: {', '.join(beside)} has no meaning with it",
            "leave it out; only --json goes with --explain",
        )
    if args.json and args.markdown:
        raise CheckError("--json and --markdown exclude each other", "give one of the two")
    if args.active is None and (args.yes or args.python):
        raise CheckError("--yes and --python belong to --active", "leave them out, or add --active torch")
    if args.replay is not None and args.active is not None:
        raise CheckError("--replay contacts no node: --active has nothing to try", "give one of the two")
    if args.replay is not None and (args.pool or args.record or args.overrides or choice_of(args)):
        raise CheckError(
            "--replay judges files: --pool, --nodes, --include, --exclude, --set and --record have no "
            "meaning with it",
            "leave them out",
        )
    if args.profile is not None and args.framework is not None:
        raise CheckError(
            "a profile and --framework were given: the profile has its framework",
            "use --set framework=NAME, or leave the profile out",
        )
    if args.framework is not None:
        from rankdeck_profiles import frameworks

        frameworks.get(args.framework)


def _record(folder: Path, checked: Checked) -> None:
    """Save what was read; said after the verdicts, which a full disk must not take along."""
    from rankdeck_runs import recorded

    written = recorded.write(folder, checked.readings)
    for path in written:
        output.say(f"recorded {path}")
    if others := recorded.others_in(folder, written):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        output.say(
            f"{folder} has other records, too, which --replay of the folder takes in: "
            f"{', '.join(others[:3])}{more}"
        )


def _beside_explain(args: Namespace) -> list[str]:
    """What else was given, as it is typed."""
    given = {
        "PROFILE": args.profile,
        "--pool": args.pool,
        "--nodes, --include or --exclude": choice_of(args),
        "--set": args.overrides,
        "--framework": args.framework,
        "--record": args.record,
        "--replay": args.replay,
        "--active": args.active,
        "--markdown": args.markdown,
    }
    return [name for name, value in given.items() if value]


def _explain(check_id: str, *, as_json: bool) -> int:
    from rankdeck_backends.preflight import catalogue

    check = catalogue.find(check_id.lower())
    if as_json and (listed := (check,) if check is not None else catalogue.of_kind(check_id.lower())):
        output.print_json([catalogue.described(each) for each in listed])
        return EXIT_OK
    if check is None and (kind := catalogue.of_kind(check_id.lower())):
        output.print_table(("CHECK", "WHAT IT ASKS"), [(each.id, each.title) for each in kind])
        return EXIT_OK
    if check is None:
        raise CheckError(f"there is no check {check_id[:80]!r}", _meant(check_id.lower()))
    from rankdeck_tui.cli.checkview import explanation

    print(explanation(check))
    return EXIT_OK


def _meant(wanted: str) -> str:
    """Those that are near; else which kinds there are."""
    from difflib import get_close_matches

    from rankdeck_backends.preflight import catalogue

    ids = [each.id for each in catalogue.EVERY]
    kinds = list(dict.fromkeys(each.partition(".")[0] for each in ids))
    if near := get_close_matches(wanted[:80], ids, n=3):
        return f"did you mean {' or '.join(near)}?"
    return f"ids begin with {', '.join(kinds)}; `--explain {kinds[0]}` lists those of one kind"


def _live(args: Namespace) -> tuple[Checked, str]:
    from rankdeck_tui.cli.follow import wait_for
    from rankdeck_tui.cli.surroundings import engine, library, profile_and_pool

    if args.profile is None:
        if args.overrides:
            raise CheckError("--set changes a profile, and none was given", "name the profile")
        from rankdeck_profiles.selection import select

        profile, pool = None, select(library().pool(args.pool), choice_of(args))
    else:
        profile, pool = profile_and_pool(args.profile, args.overrides, args.pool, choice_of(args))
    framework = profile.framework if profile is not None else args.framework or DEFAULT_FRAMEWORK
    if args.active is not None:
        from rankdeck_tui.cli import active

        active.refuse_what_cannot_be(args, profile, pool)
    with engine() as running:
        checked = wait_for(running.check(profile, pool, output.say, framework=framework))
        if args.active is not None:
            checked = active.tried(running, args, profile, pool, checked)
    what = f"profile {profile.name} on pool {pool.name}" if profile is not None else f"pool {pool.name}"
    return checked, f"{what}, {framework}"


def _replayed(args: Namespace) -> tuple[Checked, str]:
    from rankdeck_runs import recorded
    from rankdeck_runs.checking import replayed
    from rankdeck_tui.cli.surroundings import library

    profile = library().profile(args.profile, ()) if args.profile is not None else None
    framework = profile.framework if profile is not None else args.framework or DEFAULT_FRAMEWORK
    checked = replayed(recorded.read(args.replay), profile, framework)
    return checked, f"recorded nodes, {framework}"


def _show(args: Namespace, checked: Checked, title: str) -> None:
    from rankdeck_tui.cli import checkview

    if args.json:
        output.print_json(checked.to_json())
    elif args.markdown:
        from rankdeck_backends.preflight.markdown import as_markdown

        print(as_markdown(checked.report, title=f"Preflight: {title}"), end="")
    else:
        checkview.show(checked.report, title)
