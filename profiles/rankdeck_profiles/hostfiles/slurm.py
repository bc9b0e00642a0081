"""Slurm's node lists with counts a node: `gpu[001-003],n7`, `2(x3),1` (SLURM_TASKS_PER_NODE, sbatch(1))."""

from __future__ import annotations

import re

from rankdeck_profiles.hostfiles import plain
from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.page import Page

_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?", re.ASCII)
_MOST = 65536


def read(nodelist: str, tasks: str, page: Page) -> None:
    """Write down an allocation.

    Args:
        nodelist: SLURM_JOB_NODELIST.
        tasks: SLURM_TASKS_PER_NODE; empty where Slurm does not say.
        page: where to.
    """
    plain.read([Line(1, nodelist)], page)
    names = list(dict.fromkeys(each.host for each in page.found))
    if not tasks:
        return
    counts = counts_of(tasks)
    line = Line(1, tasks)
    if counts is None or len(counts) != len(names):
        said = "is no list of counts" if counts is None else f"counts {len(counts)} nodes"
        page.wrong(
            line,
            f"SLURM_TASKS_PER_NODE {said}, and there are {len(names)}",
            "give the slots yourself: --slots N",
        )
        return
    if set(counts) == {1}:
        # Slurm says 1 where nobody asked for tasks; a node's GPUs say more.
        page.note(
            None, "Slurm has one task a node: slots are left to the number of GPUs; --slots N says otherwise"
        )
        return
    found, page.found = page.found, []
    by_name = dict(zip(names, counts, strict=True))
    for each in found:
        page.add(Line(each.line, ""), each.host, by_name[each.host], each.user, each.port)


def counts_of(text: str) -> list[int] | None:
    """`2(x3),1` as 2, 2, 2, 1; None if it is something else."""
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None or int(match[2] or 1) > _MOST:
            return None
        counts += [int(match[1])] * int(match[2] or 1)
    return counts
