"""Where a run's logs are, in lines: of `rankdeck show` and `rankdeck collect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankdeck_runs.collection import CopyState
from rankdeck_tui import words

if TYPE_CHECKING:
    from rankdeck_runs.collection import Kept


def told(kept: Kept) -> list[str]:
    """What was collected, how it was verified, and what is missing on which node and why."""
    lines = []
    shared = [node.node for node in kept.nodes if node.state is CopyState.SHARED]
    collected = [node for node in kept.nodes if node.state is CopyState.COLLECTED]
    if collected:
        files = words.plural(sum(node.copy.files for node in collected), "file")
        size = words.size(sum(node.copy.size for node in collected))
        proven = [node for node in collected if node.copy.verified]
        how = ", verified by SHA-256" if len(proven) == len(collected) else ""
        lines.append(f"logs collected from {words.plural(len(collected), 'node')}: {files}, {size}{how}")
    if shared:
        lines.append(f"logs of {words.plural(len(shared), 'node')} were written straight into the record")
    lines += [
        f"{node.node}: {name} holds other bytes than the node's own log"
        for node in collected
        for name in node.copy.unverified
    ]
    lines += [node.text for node in kept.nodes if node.text]
    gone = [node.node for node in kept.nodes if node.copy.cleared]
    if gone:
        lines.append(f"the run's folder was removed from {', '.join(gone)}")
    return lines
