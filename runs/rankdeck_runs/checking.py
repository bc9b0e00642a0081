"""Preflight of a pool or of a planned run: what was read on its nodes and between them, and the verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rankdeck_backends.base import NodeError
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.facts import MpiFamily, NodeFacts
from rankdeck_profiles.model import Pool, PoolNode, Profile
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.planner import plan
from rankdeck_profiles.readings import Readings
from rankdeck_runs.errors import without_node
from rankdeck_runs.links import Links
from rankdeck_runs.looking import with_clocks
from rankdeck_runs.meeting import Meeting, meet, patience
from rankdeck_runs.probing import Probed, probe_all, questions

if TYPE_CHECKING:  # the checks take longer to import than all else here: they are, beside the asking
    from rankdeck_backends.preflight.finding import Finding
    from rankdeck_backends.preflight.judge import Report
    from rankdeck_backends.preflight.subject import Asked

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """What preflight found."""

    report: Report
    readings: Mapping[str, Readings]
    """By node, the head first; of a node that was not reached only why."""
    unreached: tuple[str, ...] = ()
    """The nodes that could not be reached."""

    @property
    def unread(self) -> tuple[str, ...]:
        """The nodes that were reached and yet could not be looked at: nothing is known of them."""
        return tuple(
            node
            for node, each in self.readings.items()
            if node not in self.unreached and "unread" in (each.mapping("ssh") or {})
        )

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck check --json`."""
        return self.report.to_json()


def replayed(readings: Mapping[str, Readings], profile: Profile | None, framework: str) -> Checked:
    """Judge recorded nodes: the same verdicts as when they were read. Nothing is contacted.

    Args:
        readings: by node, the head first.
        profile: what is to be run there; None: nothing in particular.
        framework: where there is no profile, for which framework.
    """
    from rankdeck_backends.preflight.judge import judge
    from rankdeck_backends.preflight.subject import Asked

    asked = Asked(framework=framework, recorded=True)
    if profile is not None:
        asked = replace(
            asked,
            framework=profile.framework,
            env=profile.env,
            slots=profile.procs_per_node,
            master_port=profile.master_port,
            options=profile.options,
        )
    return Checked(judge(readings, asked), readings)


async def check(
    links: Links, profile: Profile | None, pool: Pool, progress: Progress, framework: str
) -> Checked:
    """Look at the nodes, let them try each other, and judge. See `Engine.check`."""
    nodes = pool.nodes[: profile.nodes] if profile is not None and profile.nodes is not None else pool.nodes
    progress(f"looking at {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} of pool {pool.name}")
    load_checks()
    asked_for = questions(profile) if profile is not None else {}
    probed, failed = await probe_all(links, profile, pool, nodes, progress, asked_for)
    facts = {name: each.facts for name, each in probed.items()}
    reached = tuple(node for node in nodes if node.name in facts)
    if profile is not None and not failed:
        planned = plan(profile, pool, facts)
        asked = asked_of_plan(profile, pool, planned, facts)
        order = [node.node for node in planned.nodes]
        reached = tuple(sorted(reached, key=lambda node: order.index(node.name)))
    else:
        asked = asked_of_pool(profile, pool, facts, framework)
    readings = await read_between(links, pool, reached, facts, probed, asked, progress, in_a_hurry=False)
    for name, error in failed.items():
        readings[name] = Readings(syscalls={"ssh": _why_unreached(name, error)})
    return Checked(await judged(readings, asked), readings, tuple(failed))


async def judged(readings: Mapping[str, Readings], asked: Asked) -> Report:
    """The verdicts, worked out on another thread: of 64 nodes they take half a second."""

    def judge_all() -> Report:
        from rankdeck_backends.preflight.judge import judge

        return judge(readings, asked)

    return await asyncio.to_thread(judge_all)


def load_checks() -> asyncio.Future[None]:
    """Import the checks on another thread, while nodes are being asked; nothing need wait for it."""

    def load() -> None:
        import rankdeck_backends.preflight.judge  # noqa: F401

    return asyncio.get_running_loop().run_in_executor(None, load)


async def read_between(
    links: Links,
    pool: Pool,
    nodes: tuple[PoolNode, ...],
    facts: Mapping[str, NodeFacts],
    probed: Mapping[str, Probed],
    asked: Asked,
    progress: Progress,
    *,
    in_a_hurry: bool,
) -> dict[str, Readings]:
    """All readings of these nodes (the head first): what each told, the clocks, and what lies between them.

    Args:
        links: to the nodes.
        pool: theirs.
        nodes: those that were reached.
        facts: what they are.
        probed: what was read there.
        asked: for the port, and addresses that are settled.
        progress: told what is under way.
        in_a_hurry: a launch waits for it.
    """
    if not nodes:
        return {}
    readings = with_clocks(
        {node.name: probed[node.name].readings for node in nodes},
        {node.name: probed[node.name].clock for node in nodes},
    )
    if len(nodes) > 1:
        progress(f"letting {len(nodes)} nodes reach each other")
    port = asked.master_port if asked.master_port is not None else facts[nodes[0].name].free_port
    meeting = Meeting(
        pool,
        nodes,
        {node.name: asked.addresses.get(node.name) or facts[node.name].address for node in nodes},
        {node.name: facts[node.name].interface for node in nodes},
        port,
        patience(pool, in_a_hurry=in_a_hurry),
    )
    return await meet(links, meeting, readings)


def asked_of_plan(profile: Profile, pool: Pool, planned: LaunchPlan, facts: Mapping[str, NodeFacts]) -> Asked:
    """What a planned run asks of its nodes."""
    from rankdeck_backends.preflight.subject import Asked

    return Asked(
        framework=profile.framework,
        env=profile.env,
        slots=pool.slots,
        slots_of={node.node: len(node.ranks) for node in planned.nodes},
        master_port=planned.head.port,
        interface=pool.interface,
        addresses={node.node: node.address for node in planned.nodes},
        options=profile.options,
        open_mpi=_open_mpi(facts.get(planned.head.node)),
    )


def asked_of_pool(
    profile: Profile | None, pool: Pool, facts: Mapping[str, NodeFacts], framework: str
) -> Asked:
    """What is asked of a pool where nothing is planned: no profile, or a node that was not reached."""
    from rankdeck_backends.preflight.subject import Asked

    asked = Asked(
        framework=framework,
        slots=pool.slots,
        interface=pool.interface,
        addresses={name: each.address for name, each in facts.items()},
    )
    if profile is None:
        return asked
    return replace(
        asked,
        framework=profile.framework,
        env=profile.env,
        slots=profile.procs_per_node or pool.slots,
        master_port=profile.master_port,
        options=profile.options,
    )


def _open_mpi(head: NodeFacts | None) -> int | None:
    """Open MPI's major version on the head node, whose mpirun starts all; 0: another MPI; None: not known."""
    if head is None or head.mpi is None or head.mpi.family is MpiFamily.NONE:
        return None
    major = head.mpi.version.partition(".")[0]
    return int(major) if head.mpi.family is MpiFamily.OPEN_MPI and major.isdecimal() else 0


def problems_of_report(report: Report) -> list[tuple[str, str]]:
    """(nodes, cause with its fix) for each reason not to launch; several nodes share a line."""
    return [(", ".join(finding.nodes) or "all nodes", _cause(finding)) for finding in report.stopping]


def _cause(finding: Finding) -> str:
    fix = f"\n    fix: {finding.fix}" if finding.fix else ""
    return f"{finding.message} [{finding.id}]{fix}"


def _why_unreached(node: str, error: RankdeckError) -> dict[str, Any]:
    step = str(error.step) if isinstance(error, NodeError) else "agent"
    return {"state": step, "message": without_node(node, error.message), "hint": error.hint}
