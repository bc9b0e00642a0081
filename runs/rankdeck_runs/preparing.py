"""Before a run: look at the nodes, plan, and see that each has what it needs. Nothing is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.model import Pool, PoolNode, Profile
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.planner import plan
from rankdeck_profiles.readings import Readings
from rankdeck_runs import probing, staying
from rankdeck_runs.checking import (
    asked_of_plan,
    folder_of,
    judged,
    load_checks,
    problems_of_findings,
    read_between,
)
from rankdeck_runs.errors import NODE_NOT_REACHED, PrepareError, hints_of, not_reached, problems_of
from rankdeck_runs.links import Links
from rankdeck_runs.looking import LAUNCH_PATIENCE, silent_tools
from rankdeck_runs.needs import NEEDS, unmet, with_needs
from rankdeck_runs.probing import probe_all, questions
from rankdeck_runs.remains import remains
from rankdeck_runs.transport import Fabric
from rankdeck_runs.usable_fabric import usable_fabric

if TYPE_CHECKING:
    from rankdeck_backends.preflight.judge import Report

T = TypeVar("T")
Progress = Callable[[str], None]

TRIES_FOR_A_PORT = 3
"""Two launches at the same moment find the same port free; the second takes another one."""
CHECK_FAILED = 1
"""Exit status: preflight found something that would break the run."""
WRONG = 2
"""Exit status: what the profile names is not on the nodes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a launch needs."""

    profile: Profile
    pool: Pool
    plan: LaunchPlan
    facts: Mapping[str, NodeFacts]
    problems: tuple[tuple[str, str], ...] = ()
    """(node, problem) that were found and overruled with `skip_checks`; else empty."""
    report: Report | None = None
    """What preflight found."""
    fabric: Fabric | None = None
    """What its ranks are expected to send over; None: sockets, or nothing."""
    remains: tuple[tuple[str, str], ...] = ()
    """(node, what an earlier run of the user left there)."""
    active_test: bool = False
    """True: it is preflight's own, and stands apart from the user's runs."""


async def prepare(
    links: Links, profile: Profile, pool: Pool, progress: Progress, *, skip_checks: bool = False
) -> Prepared:
    """Probe, plan and check. See `Engine.prepare`."""
    for again in range(TRIES_FOR_A_PORT, 0, -1):
        try:
            return await _prepare(links, profile, pool, progress, skip_checks=skip_checks)
        except PrepareError as error:
            if again == 1 or profile.master_port is not None or not _port_alone(error):
                raise
            progress("another launch took the head node's port meanwhile: looking again")
    raise AssertionError("the last try returns or raises")


def _port_alone(error: PrepareError) -> bool:
    """Whether nothing is wrong but that the port, free when it was looked for, is free no longer."""
    return bool(error.problems) and all("[port.free]" in problem for _, problem in error.problems)


async def _prepare(
    links: Links, profile: Profile, pool: Pool, progress: Progress, *, skip_checks: bool
) -> Prepared:
    nodes = pool.nodes[: profile.nodes] if profile.nodes is not None else pool.nodes
    progress(f"looking at {_count(len(nodes), 'node')} of pool {pool.name}")
    load_checks()
    probed, unreached = await probe_all(
        links, profile, pool, nodes, progress, questions(profile), in_a_hurry=True
    )
    if unreached:
        raise _prepare_error(unreached)
    for name, each in probed.items():
        if silent := silent_tools(each.readings):
            progress(
                f"{name}: no answer within {LAUNCH_PATIENCE:g} s from {', '.join(silent)}; `rankdeck check` "
                "waits longer"
            )
    facts = {name: each.facts for name, each in probed.items()}
    planned = plan(profile, pool, facts)
    progress(f"checking {_count(len(planned.nodes), 'node')}")
    asked = asked_of_plan(profile, pool, planned, facts)
    by_name = {node.name: node for node in nodes}
    used = tuple(by_name[node.node] for node in planned.nodes)

    async def among_nodes() -> tuple[dict[str, RankdeckError], dict[str, Readings]]:
        return await asyncio.gather(
            unmet(links, pool, planned),
            read_between(
                links,
                pool,
                used,
                facts,
                probed,
                asked,
                progress,
                folder=folder_of(profile, pool),
                in_a_hurry=True,
            ),
        )

    failed, readings = await _while_all_answer(links, pool, used, planned, among_nodes())
    if lost := await staying.gone(links, pool, used):
        raise _prepare_error({**failed, **lost}, planned)
    report = await judged(with_needs(readings, planned, failed), asked)
    causes = problems_of_findings(each for each in report.stopping if each.id != NEEDS)
    problems = problems_of(failed) + causes
    if not_reached(failed) or (problems and not skip_checks):
        raise _refusal(failed, causes, planned)
    return Prepared(
        profile,
        pool,
        planned,
        facts,
        tuple(problems),
        report,
        usable_fabric(report.variables),
        remains(facts[node.node] for node in planned.nodes),
    )


async def _while_all_answer(
    links: Links, pool: Pool, nodes: Iterable[PoolNode], planned: LaunchPlan, work: Coroutine[Any, Any, T]
) -> T:
    """The work's result, as long as every node answers.

    Raises:
        PrepareError: one is gone, or has fallen silent.
    """
    async with AsyncExitStack() as stack:
        connections = []
        lost: dict[str, RankdeckError] = {}
        for node in nodes:
            try:
                connections.append(await stack.enter_async_context(links.use(pool.backend, node)))
            except RankdeckError as error:
                lost[node.name] = error
        if lost:
            work.close()
            raise _prepare_error(lost, planned)
        found, lost = await staying.while_answering(connections, work)
    if found is None:
        raise _prepare_error(lost, planned)
    return found


async def probe(links: Links, pool: Pool, progress: Progress) -> dict[str, NodeFacts]:
    """Ask every node of a pool what it is. See `Engine.probe`."""
    facts, failed = await probing.probe(links, pool, progress)
    if failed:
        raise _prepare_error(failed)
    return facts


def _refusal(
    failed: Mapping[str, RankdeckError], causes: Sequence[tuple[str, str]], planned: LaunchPlan
) -> PrepareError:
    """All that is wrong: with the nodes, and with what the run needs there."""
    if not_reached(failed):
        return _prepare_error(failed, planned)
    status = WRONG if failed else CHECK_FAILED
    hint = hints_of(failed) if failed else ""
    return PrepareError([*problems_of(failed), *causes], hint, status, planned, checks_failed=bool(causes))


def _prepare_error(failed: Mapping[str, RankdeckError], planned: LaunchPlan | None = None) -> PrepareError:
    status = NODE_NOT_REACHED if not_reached(failed) else WRONG
    return PrepareError(problems_of(failed), hints_of(failed), status, planned)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
