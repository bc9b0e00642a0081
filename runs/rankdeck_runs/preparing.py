"""Before a run: look at the nodes, plan, and see that each has what it needs. Nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_backends.base import NodeRefusal
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.facts import from_probe
from rankdeck_profiles import frameworks
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.leftovers import ASKED_FOR
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_profiles.plan import LaunchPlan, NodePlan
from rankdeck_profiles.planner import DEFAULT_PORT, plan
from rankdeck_runs.errors import NODE_NOT_REACHED, PrepareError, hints_of, not_reached, problems_of
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.values import objects

Progress = Callable[[str], None]

PORTS_TRIED = 200
"""How many ports from 29500 up the head node may try before it gives up on proposing one."""
PROBE_TIMEOUT = 30.0
"""Seconds for a node to say what it is."""
CHECK_TIMEOUT = 600.0
"""Seconds for a node's `check`, or a probe with the framework's questions: it runs the profile's setup lines,
and loading modules from a cold file server takes minutes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a launch needs."""

    profile: Profile
    pool: Pool
    plan: LaunchPlan
    facts: Mapping[str, NodeFacts]
    problems: tuple[tuple[str, str], ...] = ()
    """(node, problem) that were found and overruled with `skip_checks`; else empty."""


async def prepare(
    links: Links, profile: Profile, pool: Pool, progress: Progress, *, skip_checks: bool = False
) -> Prepared:
    """Probe, plan and check. See `Engine.prepare`."""
    nodes = pool.nodes[: profile.nodes] if profile.nodes is not None else pool.nodes
    progress(f"looking at {_count(len(nodes), 'node')} of pool {pool.name}")
    facts = await _probe_all(links, pool, nodes, progress, questions(profile))
    planned = plan(profile, pool, facts)
    progress(f"checking {_count(len(planned.nodes), 'node')}")
    failed = {**_same_machines(pool, facts), **await _check_all(links, pool, planned)}
    if failed and not (skip_checks and not not_reached(failed)):
        raise _prepare_error(failed)
    return Prepared(profile, pool, planned, facts, tuple(problems_of(failed)))


async def probe(links: Links, pool: Pool, progress: Progress) -> dict[str, NodeFacts]:
    """Ask every node of a pool what it is. See `Engine.probe`."""
    return await _probe_all(links, pool, pool.nodes, progress)


async def _probe_all(
    links: Links,
    pool: Pool,
    nodes: tuple[PoolNode, ...],
    progress: Progress,
    asked: Mapping[str, Any] | None = None,
) -> dict[str, NodeFacts]:
    reached = 0

    async def probe_one(node: PoolNode) -> NodeFacts:
        nonlocal reached
        async with links.use(pool.backend, node) as connection:
            facts = await _probe(connection, node, pool, asked or {})
        reached += 1
        progress(f"{node.name} answered ({reached} of {len(nodes)})")
        return facts

    found, failed = await from_all({node.name: probe_one(node) for node in nodes})
    if failed:
        raise _prepare_error(failed)
    return found


def _same_machines(pool: Pool, facts: Mapping[str, NodeFacts]) -> dict[str, RankdeckError]:
    """Nodes that are the machine of a node before them: their ranks would share its GPUs.

    A machine is known by its boot and its host name: containers on one machine share the boot. The nodes of
    the local backend are one machine on purpose.
    """
    first: dict[tuple[str, str], str] = {}
    found: dict[str, RankdeckError] = {}
    for name, said in facts.items():
        machine = (said.machine, said.hostname)
        if not said.machine or pool.backend is BackendKind.LOCAL:
            continue
        if machine in first:
            found[name] = RankdeckError(
                f"is the same machine as {first[machine]}: both are {said.hostname}, boot {said.machine}",
                f"name each machine once in pool {pool.name}",
            )
        first.setdefault(machine, name)
    return found


def questions(profile: Profile) -> dict[str, Any]:
    """What a profile's framework asks of the nodes beside what every probe tells.

    Args:
        profile: the profile.

    Returns:
        Fields of the probe's request (docs/agent-protocol.md); empty for most frameworks.
    """
    framework = frameworks.get(profile.framework)
    where = {
        "python": profile.python or "python3",
        "setup": list(profile.setup),
        "cwd": profile.workdir,
        "remove": [],
    }
    asked: dict[str, Any] = {}
    if framework.asks_mpi:
        mpirun = framework.option(profile, "mpirun") or "mpirun"
        asked["mpi"] = {"mpirun": mpirun, "env": dict(profile.env), **where}
    if framework.software:
        asked["software"] = {"names": list(framework.software), **where}
    return asked


async def _probe(
    connection: AgentConnection, node: PoolNode, pool: Pool, asked: Mapping[str, Any]
) -> NodeFacts:
    # A local node is one loopback address: the port must be free on that. Elsewhere rank 0 listens on all
    # addresses.
    address = node.host if pool.backend is BackendKind.LOCAL else ""
    reply = await connection.request(
        "probe",
        timeout=CHECK_TIMEOUT if asked else PROBE_TIMEOUT,
        ports={"address": address, "start": DEFAULT_PORT, "count": PORTS_TRIED},
        leftovers=list(ASKED_FOR),
        **asked,
    )
    return from_probe(node, pool, reply.header, reached_at=connection.reached_at)


async def _check_all(links: Links, pool: Pool, planned: LaunchPlan) -> dict[str, RankdeckError]:
    by_name = {node.name: node for node in pool.nodes}

    async def check(node: NodePlan) -> None:
        async with links.use(pool.backend, by_name[node.node]) as connection:
            await _check(connection, node, planned)

    _, failed = await from_all({node.node: check(node) for node in planned.nodes})
    return failed


async def _check(connection: AgentConnection, node: NodePlan, planned: LaunchPlan) -> None:
    process = node.processes[0] if node.processes else None
    reply = await connection.request(
        "check",
        timeout=CHECK_TIMEOUT,
        needs=[{"kind": n.kind, "value": n.value, "by": n.by, "why": n.why} for n in node.needs],
        cwd=node.cwd or (process.cwd if process else ""),
        setup=list(planned.setup),
        env=dict(node.rank_env or (process.env if process else {})),
        remove=[variable.name for variable in node.env_removed],
    )
    problems = objects(reply.header, "problems")
    if problems:
        raise NodeRefusal.from_check(node.node, problems)


def _prepare_error(failed: Mapping[str, RankdeckError]) -> PrepareError:
    status = NODE_NOT_REACHED if not_reached(failed) else 2
    return PrepareError(problems_of(failed), hints_of(failed), status)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
