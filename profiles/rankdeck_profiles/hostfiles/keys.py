"""What was understood of a host file as the keys of a pool's file, and as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rankdeck_profiles.hostfiles.model import Hostfile
from rankdeck_profiles.nodes import entries_of


def pool_keys(found: Hostfile, slots: int | None = None) -> dict[str, Any]:
    """`nodes`, and `slots` where it is one number for all; where the nodes differ, each entry has its own.

    Args:
        found: what was understood.
        slots: for all nodes, whatever the file says.
    """
    each = {node.slots for node in found.nodes}
    if slots is None and len(each) == 1:
        slots = each.pop()
    elif slots is None:
        return {"nodes": entries_of(found.nodes)}
    keys: dict[str, Any] = {"nodes": entries_of(replace(node, slots=None) for node in found.nodes)}
    if slots is not None:
        keys["slots"] = slots
    return keys


def as_json(found: Hostfile) -> dict[str, Any]:
    """Everything that was understood."""
    return {
        "format": str(found.format),
        "why": found.why,
        "slots": found.slots,
        "nodes": [
            {
                "name": node.name,
                "host": node.host,
                "user": node.user,
                "port": node.port,
                "slots": node.slots,
                "lines": list(found.lines[node.name]),
            }
            for node in found.nodes
        ],
        "left_out": [{"host": each.host, "slots": each.slots, "why": each.why} for each in found.left_out],
        "notes": [{"line": note.line, "text": note.text} for note in found.notes],
        "problems": [
            {"lines": list(problem.lines), "text": problem.text, "fix": problem.fix}
            for problem in found.problems
        ],
    }
