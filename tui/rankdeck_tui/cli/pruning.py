"""`rankdeck runs --prune`: shows what would go, asks, and removes it."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.pruning import Choice, Rule, age, choose
from rankdeck_runs.removing import finish_removals
from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.questions import ask, may_ask
from rankdeck_tui.cli.surroundings import engine, run_home

if TYPE_CHECKING:
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.home import RunHome
    from rankdeck_runs.summary import RunSummary

YES, NO = ("y", "yes"), ("n", "no", "")


class PruneError(RankdeckError):
    """It is not said what is to go, or nobody can be asked."""


def prune(args: Namespace) -> int:
    """Removes what the options say. Returns the exit status: 1 if a run that was to go is still there."""
    home = run_home()
    choice = choose(home.list(active_tests=True), _rule(args, home), time.time())
    if not args.json:
        _print_preview(choice)
    if not choice.going or (args.json and not args.yes):
        if args.json:
            output.print_json(_preview_json(choice))
        return EXIT_OK
    if not args.yes and not _agreed(choice):
        output.say("nothing was removed")
        return EXIT_INTERRUPTED
    return _remove(choice, home, as_json=args.json)


def _rule(args: Namespace, home: RunHome) -> Rule:
    if not args.run and args.older_than is None and args.keep is None and not args.failed:
        raise PruneError(
            "--prune: which runs are to go?",
            "add RUN, --older-than 30d, --keep 20 or --failed; several together narrow it down",
        )
    names = tuple(home.find(name).id for name in args.run)
    states = frozenset({"failed"}) if args.failed else frozenset[str]()
    return Rule(names, args.older_than, args.keep or 0, states, args.uncollected)


def _print_preview(choice: Choice) -> None:
    now = time.time()
    if choice.going:
        output.print_table(
            ("RUN", "STATE", "ENDED", "SIZE", "LOGS"),
            [
                (run.id, run.state, _ago(run, now), words.size(run.disk_bytes), run.lacks or run.logs)
                for run in choice.going
            ],
        )
    for run, why in choice.staying:
        output.say(f"{run.id} stays: {why}")
    if not choice.going:
        output.say("no run is to go")
    if any("not all here" in why for _, why in choice.staying):
        output.say("'rankdeck collect RUN' fetches what is missing; --uncollected gives it up")


def _ago(run: RunSummary, now: float) -> str:
    since = age(run, now)
    if since is None or since < 1:
        return "-" if since is None else "just now"
    return f"{words.age(since)} ago"


def _agreed(choice: Choice) -> bool:
    if not may_ask():
        raise PruneError(
            "--prune asks before it removes anything, and there is no terminal to ask on",
            "add --yes to remove what is listed above",
        )
    runs = words.plural(len(choice.going), "run")
    question = f"Remove {runs}, {words.size(choice.size)}, here and on their nodes? It can't be undone"
    return ask(question, _yes_or_no, default="n")


def _yes_or_no(answer: str) -> bool:
    if answer.lower() in YES:
        return True
    if answer.lower() in NO:
        return False
    raise PruneError(f"{answer!r} is no answer", "type y or n")


def _remove(choice: Choice, home: RunHome, *, as_json: bool) -> int:
    removed: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    with engine() as running:
        for run in choice.going:
            try:
                removed.append(_remove_one(running, run))
            except (RankdeckError, OSError) as error:
                failed.append({"id": run.id, "why": str(error)})
                output.error(f"run {run.id}: {error}", getattr(error, "hint", ""))
    finish_removals(home.runs)
    if as_json:
        stays = [{"id": run.id, "why": why} for run, why in choice.staying]
        output.print_json({"removed": removed, "failed": failed, "stays": stays})
    else:
        freed = words.size(sum(run["disk_bytes"] or 0 for run in removed))
        output.say(f"removed {words.plural(len(removed), 'run')}, {freed}")
    return EXIT_FAILED if failed else EXIT_OK


def _remove_one(running: Engine, run: RunSummary) -> dict[str, Any]:
    cleared = wait_for(running.remove(run.id))
    for node, why in cleared.left.items():
        output.warning(f"run {run.id}, {node}: {why}")
    return {"id": run.id, "disk_bytes": run.disk_bytes, "nodes": cleared.to_json()}


def _preview_json(choice: Choice) -> dict[str, Any]:
    return {
        "would_remove": [run.to_json() for run in choice.going],
        "stays": [{"id": run.id, "why": why} for run, why in choice.staying],
        "bytes": choice.size,
    }
