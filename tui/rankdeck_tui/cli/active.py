"""`rankdeck check --active`: says the cost, asks, has pairs of nodes send, and adds what that came to."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from rankdeck_profiles.model import Pool, Profile
from rankdeck_tui.cli import output

if TYPE_CHECKING:
    from rankdeck_runs.checking import Checked
    from rankdeck_runs.engine import Engine

BAR = 30


def refuse_what_cannot_be(args: Namespace, profile: Profile | None, pool: Pool) -> None:
    """Before any node is asked.

    Raises:
        ActiveError: there are no two nodes, or nobody is there to be asked.
    """
    from rankdeck_runs import active

    active.senders(profile, pool, ())
    if not args.yes and not sys.stdin.isatty():
        raise active.ActiveError("--active asks first, and there is no terminal to ask on", "add --yes")


def tried(engine: Engine, args: Namespace, profile: Profile | None, pool: Pool, checked: Checked) -> Checked:
    """What was checked, with the pairs' findings; without them if the user says no, or a node is missing."""
    from rankdeck_backends.preflight.finding import Verdict
    from rankdeck_profiles.nodes import folded
    from rankdeck_runs import active
    from rankdeck_runs.active_findings import findings_of, not_tried, with_measured

    try:
        those = active.senders(profile, pool, checked.unreached)
    except active.ActiveError as error:
        output.say(f"--active {args.active}: {error.message}")
        return checked
    test = active.ActiveTest(args.active)
    output.say(f"--active {test}: {active.cost(test, len(active.disjoint(those.nodes)))}")
    if not args.yes and not _agreed():
        output.say("nothing was sent")
        return checked
    found = active.measure(
        engine,
        test,
        those,
        base=profile,
        python=args.python or (profile.python if profile is not None else "") or "python3",
        progress=_show,
    )
    checked = with_measured(checked, test, found)
    for finding in findings_of(checked, test):
        if finding.verdict is not Verdict.SKIP:
            output.say(f"{finding.verdict}  {finding.message}")
    for why, nodes in not_tried(found).items():
        output.say(f"skip  {folded(nodes)}: not tried: {why}")
    return checked


def _agreed() -> bool:
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
