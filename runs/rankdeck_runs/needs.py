"""Whether each node has what a plan needs there: folder, interpreter, script, modules, programs, ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rankdeck_backends.base import NodeRefusal
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles.errors import PlanError, RankdeckError
from rankdeck_profiles.model import Pool
from rankdeck_profiles.plan import LaunchPlan, Need, NodePlan
from rankdeck_profiles.readings import Readings
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.remedies import remedy
from rankdeck_runs.values import objects

NEEDS = "run.needs"
"""The check that judges what is found here; a launch tells the problems themselves."""
CHECK_TIMEOUT = 600.0
"""Seconds for a node's `check`: it runs the profile's setup lines, and loading modules from a cold file
server takes minutes."""


async def unmet(
    links: Links, pool: Pool, planned: LaunchPlan, hung: Collection[str] = ()
) -> dict[str, RankdeckError]:
    """The nodes that lack something, each with a `NodeRefusal`, or the `NodeError` of one that is gone.

    Args:
        links: to the nodes.
        pool: theirs.
        planned: what is to be run.
        hung: nodes whose interpreter did not start in 20 s: it finds no module in 120 s either.
    """
    by_name = {node.name: node for node in pool.nodes}

    async def check(node: NodePlan) -> None:
        needs = [
            need
            for need in node.needs
            if not _is_rendezvous(need, planned) and not (need.kind == "module" and node.node in hung)
        ]
        async with links.use(pool.backend, by_name[node.node]) as connection:
            await _check(connection, node, planned, needs)

    _, failed = await from_all({node.node: check(node) for node in planned.nodes})
    return failed


def with_needs(
    readings: Mapping[str, Readings], planned: LaunchPlan, failed: Mapping[str, RankdeckError]
) -> dict[str, Readings]:
    """The readings with what each node lacks; of one that did not answer nothing is known.

    Args:
        readings: by node.
        planned: whose needs were looked for.
        failed: what `unmet` gave.
    """
    found = dict(readings)
    for node in planned.nodes:
        error = failed.get(node.node)
        if node.node in found and (error is None or isinstance(error, NodeRefusal)):
            told = {"needs": _problems(error)}
            found[node.node] = replace(found[node.node], syscalls={**found[node.node].syscalls, **told})
    return found


def with_refusal(readings: Mapping[str, Readings], head: str, error: PlanError) -> dict[str, Readings]:
    """The readings where no plan could be made of what the nodes told: the head's say why.

    Args:
        readings: by node.
        head: the first node.
        error: what planning said.
    """
    told = {"kind": "plan", "value": "", "why": "", "message": error.message, "hint": error.hint}
    needs = {"needs": [told]}
    found = dict(readings)
    found[head] = replace(found[head], syscalls={**found[head].syscalls, **needs})
    return found


def _problems(error: NodeRefusal | None) -> list[dict[str, Any]]:
    return [
        {"kind": each.kind, "value": each.value, "why": each.why, "message": each.message, "hint": each.hint}
        for each in (error.problems if error is not None else ())
    ]


async def _check(connection: AgentConnection, node: NodePlan, planned: LaunchPlan, needs: list[Need]) -> None:
    process = node.processes[0] if node.processes else None
    reply = await connection.request(
        "check",
        timeout=CHECK_TIMEOUT,
        needs=[{"kind": n.kind, "value": n.value, "by": n.by, "why": n.why} for n in needs],
        cwd=node.cwd or (process.cwd if process else ""),
        setup=list(planned.setup),
        env=dict(node.rank_env or (process.env if process else {})),
        remove=[variable.name for variable in node.env_removed],
    )
    problems = objects(reply.header, "problems")
    if problems:
        told = [{**problem, "hint": remedy(problem)} for problem in problems]
        raise NodeRefusal.from_check(node.node, told)


def _is_rendezvous(need: Need, planned: LaunchPlan) -> bool:
    """Whether it is the port at which preflight listens meanwhile, and of which it says more (port.free)."""
    return need.kind == "port" and need.value.rpartition(":")[2] == str(planned.head.port)
