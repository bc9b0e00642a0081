"""All checks, in the order they are shown: by group, what comes first in the chain of causes first."""

from __future__ import annotations

from typing import Any

from rankdeck_backends.preflight import (
    active,
    clock,
    fabric_ethernet,
    fabric_identity,
    fabric_links,
    fabric_pool,
    fabric_ports,
    files,
    gpu_health,
    gpu_links,
    gpu_presence,
    gpu_use,
    gpudirect,
    limits,
    needs,
    ofed,
    ports,
    sockets,
    software_env,
    software_mpi,
    software_nccl,
    software_python,
    wiring,
)
from rankdeck_backends.preflight.check import Check

CHECKS: tuple[Check, ...] = (
    *fabric_ports.CHECKS,
    *fabric_identity.CHECKS,
    *fabric_pool.CHECKS,
    *fabric_links.CHECKS,
    *fabric_ethernet.CHECKS,
    *ofed.CHECKS,
    *gpudirect.CHECKS,
    *gpu_presence.CHECKS,
    *gpu_links.CHECKS,
    *gpu_health.CHECKS,
    *gpu_use.CHECKS,
    *needs.CHECKS,
    *software_python.CHECKS,
    *software_nccl.CHECKS,
    *software_mpi.CHECKS,
    *software_env.CHECKS,
    *wiring.CHECKS,
    *sockets.CHECKS,
    *ports.CHECKS,
    *files.CHECKS,
    *limits.CHECKS,
    *clock.CHECKS,
)
"""Those that are made of what was read."""
EVERY: tuple[Check, ...] = (*CHECKS, *active.CHECKS)
"""Those that have nodes send, too."""


def find(check_id: str) -> Check | None:
    """The check of that id."""
    return next((check for check in EVERY if check.id == check_id), None)


def of_kind(kind: str) -> tuple[Check, ...]:
    """The checks of a kind (`ib`, `ib.` or `ib.*`), in their order; empty if there is no such kind."""
    name, _, rest = kind.rstrip("*").partition(".")
    return () if rest else tuple(check for check in EVERY if check.id.partition(".")[0] == name)


def described(check: Check) -> dict[str, Any]:
    """The same as `explain` as JSON: an entry of `rankdeck check --explain ID --json`."""
    return {
        "id": check.id,
        "group": check.group.value,
        "looks_at": check.scope.value,
        "title": check.title,
        "reads": check.reads,
        "rule": check.rule,
        "symptom": check.symptom,
        "fix": check.fix,
        "explained_by": list(check.explained_by),
        "handled_by": list(check.handled_by),
        "source": check.source,
    }


def explain(check: Check) -> str:
    """What a check reads, its rule, why it matters and where that is known from: plain text for a person."""
    rows = (
        ("about", check.title),
        ("group", f"{check.group.value}; looks at: {check.scope.value}"),
        ("reads", check.reads),
        ("rule", check.rule),
        ("seen in the run", check.symptom),
        ("fix", check.fix),
        ("explained by", ", ".join(check.explained_by)),
        ("handled by", ", ".join(check.handled_by)),
        ("source", check.source),
    )
    return "\n".join([check.id, *(f"  {name + ':':17}{text}" for name, text in rows if text)])
