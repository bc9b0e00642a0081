"""`rankdeck check --active`: says the cost, asks, has pairs of nodes send, and adds what that came to."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile
from rankdeck_tui.cli import output

if TYPE_CHECKING:
    from rankdeck_runs.checking import Checked
    from rankdeck_runs.engine import Engine

BAR = 30


class ActiveError(RankdeckError):
    """The test can't be made."""


def tried(engine: Engine, args: Namespace, profile: Profile | None, pool: Pool, checked: Checked) -> Checked:
    """What was checked, with the pairs' findings; without them if the user says no.

    Raises:
        ActiveError: there are no two nodes, or nobody is there to be asked.
    """
    from rankdeck_runs import active
    from rankdeck_runs.active_findings import with_measured

    wanted = profile.nodes if profile is not None and profile.nodes is not None else len(pool.nodes)
    nodes = pool.nodes[:wanted]
    if len(nodes) < 2:
        raise ActiveError(f"pool {pool.name} has one node: an active test takes two", "name another pool")
    test = active.ActiveTest(args.active)
    output.say(f"--active {test}: {active.cost(test, len(active.disjoint(nodes)))}")
    if not args.yes and not _agreed():
        output.say("nothing was sent")
        return checked
    found = active.measure(
        engine,
        test,
        replace(pool, nodes=nodes),
        base=profile,
        python=args.python or (profile.python if profile is not None else "") or "python3",
        progress=_show,
    )
    report = with_measured(checked.report, test, found)
    for finding in report.findings[len(checked.report.findings) :]:
        output.say(f"{finding.verdict}  {finding.message}")
    return replace(checked, report=report)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ActiveError("--active asks first, and there is no terminal to ask on", "add --yes")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(done: int, total: int) -> None:
    """The bar; where stderr is no terminal, a line for each pair."""
    full = BAR * done // total
    bar = f"[{'#' * full}{'.' * (BAR - full)}] {done} of {total} pairs"
    if sys.stderr.isatty():
        print(f"\r{bar}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    else:
        output.say(bar)
