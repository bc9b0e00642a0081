"""Which GPUs of a node a run uses, where the pool or the person chose some."""

from __future__ import annotations

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.model import PoolNode


def chosen(node: PoolNode, found: NodeFacts | None) -> tuple[int, ...] | None:
    """The GPUs chosen, by their numbers; None: nobody chose, or it is not known how many there are.

    Args:
        node: with what was chosen.
        found: what the node said; a node that says it has no GPUs is taken at the pool's word.

    Raises:
        PlanError: the node does not have one of them, or none is left.
    """
    if node.gpus is None and not node.hidden_gpus:
        return None
    there = tuple(gpu.index for gpu in found.gpus) if found is not None else ()
    named = node.gpus if node.gpus is not None else node.hidden_gpus
    missing = [index for index in named if there and index not in there]
    if missing:
        raise PlanError(
            f"GPU {missing[0]} is not on {node.name}, which has {', '.join(map(str, there))}",
            "choose others with --include or --exclude, or in the pool's file",
        )
    if node.gpus is not None:
        return node.gpus
    left = tuple(index for index in there if index not in node.hidden_gpus)
    if there and not left:
        raise PlanError(
            f"all GPUs of {node.name} are left out", f"leave out the whole node: --exclude {node.name}"
        )
    return left or None
