"""`rankdeck plan PROFILE`: what would run where, with which environment and why."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_OK
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.parser import add_profile, choice_of
from rankdeck_tui.cli.surroundings import engine, profile_and_pool

if TYPE_CHECKING:
    from rankdeck_profiles.plan import LaunchPlan
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Asks the nodes for facts and prints the launch plan: for every node the exact command and environment, "
    "each variable with the reason for its value. Nothing is started."
)

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
"""Not in a file's name: a colon, which an IPv6 address has, is the end of a host's name to scp and rsync."""


class PlanOutputError(RankdeckError):
    """The plan can't be written where it was asked for."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    add_profile(parser)
    parser.add_argument("--offline", action="store_true", help="ask no node; say what was taken for granted")
    parser.add_argument(
        "--replay",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="plan for recorded nodes, the head first (`rankdeck check --record` makes them)",
    )
    parser.add_argument(
        "--format", choices=("text", "json", "sh"), help="text (default), json, or one shell script a node"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write the shell scripts there, one file a node"
    )


def run(args: Namespace) -> int:
    """Prints or writes the plan."""
    form = _format(args)
    plan = _replayed(args) if args.replay is not None else _asked(args)
    if form == "json":
        output.print_json(plan.to_json())
        return EXIT_OK
    from rankdeck_profiles import render

    if form == "text":
        print(output.printable(render.as_text(plan).rstrip("\n")))
        return EXIT_OK
    scripts = render.as_scripts(plan)
    if args.out is not None:
        _write(scripts, args.out)
    else:
        for node, script in scripts.items():
            print(f"# ---- {node}\n{script}")
    for warning in (*plan.warnings, *(f"assumed {what}" for what in plan.assumed)):
        output.warning(warning)
    return EXIT_OK


def _format(args: Namespace) -> str:
    asked = args.format or ("json" if args.json else None)
    if args.json and asked != "json":
        raise PlanOutputError(f"--json and --format {asked} exclude each other", "give one of the two")
    if args.out is not None and asked not in (None, "sh"):
        raise PlanOutputError(f"--out writes shell scripts, and the format is {asked}", "use --format sh")
    return "sh" if args.out is not None else asked or "text"


def _replayed(args: Namespace) -> LaunchPlan:
    if args.pool or args.offline or choice_of(args):
        raise PlanOutputError(
            "--replay plans for the nodes in files: --pool, --nodes, --include, --exclude and --offline "
            "have no meaning with it",
            "leave them out",
        )
    from rankdeck_backends.recorded_facts import facts_of, pool_of
    from rankdeck_profiles.planner import plan
    from rankdeck_runs import recorded
    from rankdeck_runs.checking import problems_of_findings, replayed
    from rankdeck_tui.cli.surroundings import library

    readings = recorded.read(args.replay)
    profile = library().profile(args.profile, args.overrides)
    planned = plan(profile, pool_of(readings), facts_of(readings))
    used = {node.node: readings[node.node] for node in planned.nodes}
    _warn_of(problems_of_findings(replayed(used, profile, profile.framework).report.stopping))
    return planned


def _asked(args: Namespace) -> LaunchPlan:
    profile, pool = profile_and_pool(args.profile, args.overrides, args.pool, choice_of(args))
    if args.offline:
        from rankdeck_profiles.planner import plan

        return plan(profile, pool, None)
    with engine() as running:
        # What is missing on the nodes stops a launch, not the look at what would be launched.
        prepared = wait_for(running.prepare(profile, pool, output.say, skip_checks=True))
    _warn_of(prepared.problems)
    return prepared.plan


def _warn_of(problems: Iterable[tuple[str, str]]) -> None:
    for node, problem in problems:
        output.warning(f"{node}: {problem}; a launch would be refused")


def _write(scripts: dict[str, str], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for node, script in scripts.items():
            path = folder / f"{_UNSAFE.sub('-', node)}.sh"
            path.write_text(script, encoding="utf-8", errors="surrogateescape")
            path.chmod(0o755)
            print(path)
    except OSError as problem:
        raise PlanOutputError(f"{problem.filename}: cannot be written: {problem.strerror}") from None
