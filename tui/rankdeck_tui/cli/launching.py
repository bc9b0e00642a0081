"""Launches a run, with progress on stderr and Ctrl-C minded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_tui.cli import output, wording
from rankdeck_tui.cli.follow import wait_for
from rankdeck_tui.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_runs.engine import Engine


def launch(
    running: Engine, profile: Profile, pool: Pool, interrupts: Interrupts, *, skip_checks: bool = False
) -> str:
    """Looks at the nodes, plans, records the run and starts it. Returns its id.

    With `skip_checks` what was found wrong is said, and the run is started all the same.

    Raises:
        RankdeckError: nothing was launched, or what was is stopped again.
        KeyboardInterrupt: Ctrl-C before the run was recorded; nothing was started.
    """

    def unless_interrupted() -> None:
        if interrupts.take():
            raise KeyboardInterrupt

    asked = running.prepare(profile, pool, output.say, skip_checks=skip_checks)
    prepared = wait_for(asked, between=unless_interrupted)
    for node, problem in prepared.problems:
        output.warning(f"{node}: {problem}")
    for warning in prepared.plan.warnings:
        output.warning(warning)
    # From here on Ctrl-C is kept until there is a run to ask about.
    run_id = wait_for(running.launch(prepared, output.say))
    ranks = wording.counted(prepared.plan.world_size, "rank")
    output.say(f"run {run_id}: {ranks} on {wording.counted(len(prepared.plan.nodes), 'node')}")
    return run_id
