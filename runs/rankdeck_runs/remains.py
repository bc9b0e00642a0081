"""What a user's earlier runs have left on the nodes of a new one, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rankdeck_backends.preflight.nvidia_smi import Smi
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.readings import Readings
from rankdeck_runs.values import integer, objects, text

SHOWN = 3
"""Processes of one run on one node that are named; the others are counted."""


def remains(nodes: Iterable[NodeFacts]) -> tuple[tuple[str, str], ...]:
    """Processes of earlier runs that run on although nobody guards them.

    Args:
        nodes: what the nodes said; of a machine that is several of them, only the first is asked.

    Returns:
        (node, what is there and what ends it), one for each node and run.
    """
    told: list[tuple[str, str]] = []
    machines: set[str] = set()
    for node in nodes:
        if node.machine in machines:
            continue
        machines.add(node.machine)
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for process in objects(node.raw, "remains"):
            runs.setdefault(text(process, "run"), []).append(process)
        held = _gpu_memory(node.readings)
        told += [(node.node, _words(run, processes, held)) for run, processes in sorted(runs.items())]
    return tuple(told)


def _words(run: str, processes: list[Mapping[str, Any]], held: Mapping[str, str]) -> str:
    named = []
    for process in processes[:SHOWN]:
        pid = str(integer(process, "pid"))
        memory = f" ({held[pid]} of GPU memory)" if pid in held else ""
        named.append(f"{pid} {text(process, 'cmd')}{memory}")
    more = len(processes) - len(named)
    listed = ", ".join(named) + (f" and {more} more" if more else "")
    if all(process.get("ended") is True for process in processes):
        # Of a run that has ended a plain stop asks no node any more.
        return f"run {run} has ended and left processes: {listed}; `rankdeck stop --force {run}` ends them"
    return f"run {run} goes on without its supervisor: {listed}; `rankdeck stop {run}` ends it"


def _gpu_memory(readings: Readings | None) -> Mapping[str, str]:
    """Memory by pid, as nvidia-smi writes it (`1024 MiB`)."""
    processes = (Smi(readings).processes if readings is not None else None) or ()
    return {str(each.pid): each.memory for each in processes}
