"""Launches a run, with progress on stderr and Ctrl-C minded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_runs.engine import Engine


def launch(
    running: Engine, profile: Profile, pool: Pool, interrupts: Interrupts, *, skip_checks: bool = False
) -> str:
    """Looks at the nodes, plans, records the run and starts it. Returns its id.

    Args:
        running: the engine.
        profile: what to run.
        pool: where.
        interrupts: minds Ctrl-C.
        skip_checks: launch although nodes lack something; it is told as warnings.

    Raises:
        RankdeckError: nothing was launched, or what was is stopped again.
        KeyboardInterrupt: Ctrl-C before the run was recorded; nothing was started.
    """

    def unless_interrupted() -> None:
        if interrupts.take():
            raise KeyboardInterrupt

    prepared = wait_for(
        running.prepare(profile, pool, output.say, skip_checks=skip_checks), between=unless_interrupted
    )
    for node, problem in prepared.problems:
        output.warning(f"{node}: {problem}")
    for node, left in prepared.remains:
        output.warning(f"{node}: {left}")
    for warning in prepared.plan.warnings:
        output.warning(warning)
    # From here on Ctrl-C is kept until there is a run to ask about.
    run_id = wait_for(running.launch(prepared, output.say))
    ranks = words.plural(prepared.plan.world_size, "rank")
    output.say(f"run {run_id}: {ranks} on {words.plural(len(prepared.plan.nodes), 'node')}")
    return run_id
