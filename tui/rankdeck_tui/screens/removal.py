"""What the home screen says before and after a run is removed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankdeck_tui import words

if TYPE_CHECKING:
    from rankdeck_runs.removing import Cleared
    from rankdeck_runs.summary import RunSummary

NODES_SHOWN = 3


def question(run: RunSummary) -> list[str]:
    """What to know before a run is removed."""
    lines = [
        f"{run.profile}, {run.state}: its record here ({words.size(run.disk_bytes)}),",
        f"and its folders on {words.plural(run.nodes, 'node')} as far as they can be reached.",
    ]
    if run.lacks:
        lines.append(f"Its logs are not all here: {run.lacks}.")
    elif not run.complete:
        lines.append("Its logs are not all here: what is missing is lost with it.")
    return [*lines, "This can't be undone."]


def outcome(run_id: str, cleared: Cleared) -> tuple[str, bool]:
    """What became of it, and whether something was left behind."""
    if not cleared.left:
        return f"{run_id} was removed.", False
    left: Sequence[str] = [f"{node}: {why}" for node, why in cleared.left.items()]
    more = f"\nand {len(left) - NODES_SHOWN} more nodes" if len(left) > NODES_SHOWN else ""
    return f"{run_id} was removed here, but\n" + "\n".join(left[:NODES_SHOWN]) + more, True
