"""Preflight of a pool or of a planned run: what was read on its nodes and between them, and the verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rankdeck_backends.base import NodeError
from rankdeck_profiles.errors import PlanError, RankdeckError
from rankdeck_profiles.facts import MpiFamily, NodeFacts
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_profiles.nodes import folded
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.planner import plan
from rankdeck_profiles.readings import Readings
from rankdeck_runs import staying
from rankdeck_runs.errors import without_node
from rankdeck_runs.links import Links
from rankdeck_runs.looking import with_clocks
from rankdeck_runs.meeting import Meeting, meet, patience
from rankdeck_runs.needs import unmet, with_needs, with_refusal
from rankdeck_runs.probing import Probed, probe_all, questions
from rankdeck_runs.recorded import without_secrets
from rankdeck_runs.recounting import recount, with_recounted
from rankdeck_runs.sharing import PATIENCE
from rankdeck_runs.values import integer, objects

if TYPE_CHECKING:  # the checks take longer to import than all else here: they are, beside the asking
    from rankdeck_backends.preflight.finding import Finding
    from rankdeck_backends.preflight.judge import Report
    from rankdeck_backends.preflight.subject import Asked

Progress = Callable[[str], None]


SHARING_IN_A_HURRY = 1.0
"""Seconds for a shared folder to show what another node wrote, while a launch waits."""
NETWORK_TYPES = (
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "fuse.",
    "wekafs",
    "glusterfs",
    "cifs",
    "smb",
    "panfs",
    "pvfs",
)
"""How the types of file systems that several nodes mount begin (/proc/mounts)."""
SEEN_IN_PLAN = ("sw.mpi", "sw.env", "gpu.count")
"""The checks that see, node by node, what makes a plan impossible: no MPI, an interface that is not there."""
BY_MPIRUN = ("mpi", "horovod")
"""The frameworks whose mpirun logs in from node to node."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What preflight found."""

    report: Report
    readings: Mapping[str, Readings]
    """By node, the head first; of a node that was not reached only why."""
    unreached: tuple[str, ...] = ()
    """The nodes that could not be reached."""
    measured: tuple[Mapping[str, Any], ...] = ()
    """What pairs of nodes came to that were made to send: `active` in the JSON form."""

    @property
    def unread(self) -> tuple[str, ...]:
        """The nodes that were reached, or recorded, and of which nothing is known all the same."""
        return tuple(
            node
            for node, each in self.readings.items()
            if node not in self.unreached
            and ("unread" in (each.mapping("ssh") or {}) or node in self.report.unknown)
        )

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck check --json`."""
        return {**self.report.to_json(), "active": [dict(each) for each in self.measured]}


def replayed(readings: Mapping[str, Readings], profile: Profile | None, framework: str) -> Checked:
    """Judge recorded nodes: the same verdicts as when they were read. Nothing is contacted.

    Args:
        readings: by node, the head first.
        profile: what is to be run there; None: nothing in particular.
        framework: where there is no profile, for which framework.
    """
    from rankdeck_backends.preflight.judge import judge
    from rankdeck_backends.preflight.subject import Asked, is_loopback

    addresses = {node: each.text("address") or "" for node, each in readings.items()}
    asked = Asked(
        framework=framework,
        recorded=True,
        addresses=addresses if all(map(is_loopback, addresses.values())) else {},
    )
    if profile is not None:
        asked = replace(
            asked,
            framework=profile.framework,
            env=profile.env,
            slots=profile.procs_per_node,
            master_port=profile.master_port or _recorded_port(readings),
            options=profile.options,
            communication=profile.communication_backend,
        )
    return Checked(judge(readings, asked), readings)


def _recorded_port(readings: Mapping[str, Readings]) -> int | None:
    """The rendezvous port that the head node was asked for when it was recorded."""
    head = next(iter(readings.values()), Readings())
    return next((port for entry in objects(head.syscalls, "ports") if (port := integer(entry, "port"))), None)


async def check(
    links: Links, profile: Profile | None, pool: Pool, progress: Progress, framework: str
) -> Checked:
    """Look at the nodes, let them try each other, and judge. See `Engine.check`."""
    nodes = pool.nodes[: profile.nodes] if profile is not None and profile.nodes is not None else pool.nodes
    progress(f"looking at {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} of pool {pool.name}")
    load_checks()
    asked_for = questions(profile or Profile("", framework, workdir="~"))
    probed, failed = await probe_all(links, profile, pool, nodes, progress, asked_for, in_a_hurry=False)
    facts = {name: each.facts for name, each in probed.items()}
    reached = tuple(node for node in nodes if node.name in facts)
    planned, refused = _planned(profile, pool, facts) if profile is not None and not failed else (None, None)
    if profile is not None and planned is not None:
        asked = asked_of_plan(profile, pool, planned, facts)
        order = [node.node for node in planned.nodes]
        reached = tuple(sorted(reached, key=lambda node: order.index(node.name)))
    else:
        asked = asked_of_pool(profile, pool, facts, framework)
    readings, again, lacking = await asyncio.gather(
        read_between(
            links,
            pool,
            reached,
            facts,
            probed,
            asked,
            progress,
            folder=folder_of(profile, pool),
            in_a_hurry=False,
        ),
        recount(links, pool, reached, {name: each.readings for name, each in probed.items()}, progress),
        _lacking(links, pool, planned, probed),
    )
    if planned is not None:
        readings = with_needs(readings, planned, lacking)
    lost = await staying.gone(links, pool, reached)
    readings = staying.without(with_recounted(readings, again), lost, asked.addresses)
    failed = {**failed, **lost}
    for name, error in failed.items():
        readings[name] = Readings(syscalls={"ssh": _why_unreached(name, error)})
    report = await judged(readings, asked)
    if refused is not None and reached and all(each.id not in SEEN_IN_PLAN for each in report.stopping):
        readings = with_refusal(readings, reached[0].name, refused)
        report = await judged(readings, asked)
    return Checked(report, readings, tuple(failed))


def _planned(
    profile: Profile, pool: Pool, facts: Mapping[str, NodeFacts]
) -> tuple[LaunchPlan | None, PlanError | None]:
    """The plan, or why these nodes do not fit it.

    Raises:
        PlanError: profile and pool do not fit together, whatever the nodes are.
    """
    try:
        return plan(profile, pool, facts), None
    except PlanError as error:
        plan(profile, pool, None)
        return None, error


async def _lacking(
    links: Links, pool: Pool, planned: LaunchPlan | None, probed: Mapping[str, Probed]
) -> dict[str, RankdeckError]:
    """What the nodes lack of what a plan needs; nothing where there is none."""
    if planned is None:
        return {}
    pythons = {name: each.readings.mapping("python") or {} for name, each in probed.items()}
    return await unmet(
        links, pool, planned, [name for name, each in pythons.items() if each.get("state") == "timeout"]
    )


def folder_of(profile: Profile | None, pool: Pool) -> str | None:
    """The folder that a run's nodes may share: its working directory."""
    if profile is None or pool.backend is BackendKind.LOCAL or profile.workdir in ("", "."):
        return None
    return profile.workdir


def _log_ins(addresses: Mapping[str, str], asked: Asked) -> dict[str, list[str]]:
    """The words after `ssh` by which an mpirun logs in to each node; none where there is no mpirun."""
    if asked.framework not in BY_MPIRUN:
        return {}
    more = asked.options.get("ssh_args") or []
    own = [str(word) for word in (more.split() if isinstance(more, str) else more)]
    return {node: [*own, address] for node, address in addresses.items()}


def _on_network(readings: Mapping[str, Readings]) -> bool:
    """Whether some node has the working directory on a file system of several nodes.

    A folder on a node's own disk promises nothing to the others: `sw.code` compares what is in it.
    """
    return any(
        entry.get("purpose") == "cwd" and str(entry.get("type")).startswith(NETWORK_TYPES)
        for each in readings.values()
        for entry in objects(each.syscalls, "paths")
    )


async def judged(readings: Mapping[str, Readings], asked: Asked) -> Report:
    """The verdicts, worked out on another thread: of 64 nodes they take half a second.

    They quote what was read, are recorded with a run and pasted into tickets: secrets are masked before.
    """

    def judge_all() -> Report:
        from rankdeck_backends.preflight.judge import judge

        return judge({node: without_secrets(each) for node, each in readings.items()}, asked)

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
    folder: str | None,
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
        folder: one that the nodes may share; None: none is asked about.
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
    addresses = {node.name: asked.addresses.get(node.name) or facts[node.name].address for node in nodes}
    meeting = Meeting(
        pool,
        nodes,
        addresses,
        {node.name: facts[node.name].interface for node in nodes},
        port,
        patience(pool, in_a_hurry=in_a_hurry),
        folder if _on_network(readings) else None,
        SHARING_IN_A_HURRY if in_a_hurry else PATIENCE,
        _log_ins(addresses, asked) if pool.backend is not BackendKind.LOCAL else {},
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
        gpus_of=_gpus_of(pool, facts),
        master_port=planned.head.port,
        took_port=profile.master_port is None,
        interface=pool.interface,
        addresses={node.node: node.address for node in planned.nodes},
        options=profile.options,
        communication=profile.communication_backend,
        open_mpi=_open_mpi(facts.get(planned.head.node)),
    )


def _gpus_of(pool: Pool, facts: Mapping[str, NodeFacts]) -> dict[str, frozenset[str]]:
    """The indices of the GPUs that are used on the nodes where the pool or the person chose some."""
    found = {}
    for node in pool.nodes:
        if node.gpus is None and not node.hidden_gpus:
            continue
        there = [gpu.index for gpu in facts[node.name].gpus] if node.name in facts else []
        used = node.gpus if node.gpus is not None else set(there) - set(node.hidden_gpus)
        found[node.name] = frozenset(map(str, used))
    return found


def asked_of_pool(
    profile: Profile | None, pool: Pool, facts: Mapping[str, NodeFacts], framework: str
) -> Asked:
    """What is asked of a pool where nothing is planned: no profile, or a node that was not reached."""
    from rankdeck_backends.preflight.subject import Asked

    asked = Asked(
        framework=framework,
        slots=pool.slots,
        slots_of={node.name: node.slots for node in pool.nodes if node.slots is not None},
        gpus_of=_gpus_of(pool, facts),
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
        slots_of={} if profile.procs_per_node else asked.slots_of,
        master_port=profile.master_port,
        options=profile.options,
        communication=profile.communication_backend,
    )


def _open_mpi(head: NodeFacts | None) -> int | None:
    """Open MPI's major version on the head node, whose mpirun starts all; 0: another MPI; None: not known."""
    if head is None or head.mpi is None or head.mpi.family is MpiFamily.NONE:
        return None
    major = head.mpi.version.partition(".")[0]
    return int(major) if head.mpi.family is MpiFamily.OPEN_MPI and major.isdecimal() else 0


def problems_of_findings(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """(nodes, cause with its fix) for each reason not to launch; several nodes share a line."""
    return [(folded(finding.nodes) or "all nodes", _cause(finding)) for finding in findings]


def _cause(finding: Finding) -> str:
    fix = f"\n    fix: {finding.fix}" if finding.fix else ""
    return f"{finding.message} [{finding.id}]{fix}"


def _why_unreached(node: str, error: RankdeckError) -> dict[str, Any]:
    step = str(error.step) if isinstance(error, NodeError) else "agent"
    return {"state": step, "message": without_node(node, error.message), "hint": error.hint}
