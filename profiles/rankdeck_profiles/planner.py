"""The launch plan: profile, pool and facts in, what runs where out.

Pure: the same inputs give the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rankdeck_profiles import environment, frameworks, placeholders, plan_checks, plan_fabric
from rankdeck_profiles.fabric.rules import FabricVariables
from rankdeck_profiles.facts import NodeFacts
from rankdeck_profiles.frameworks.base import NodeJob, expand_home
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_profiles.placement import Placement, Share, place
from rankdeck_profiles.plan import Head, LaunchPlan, Need, NodePlan

DEFAULT_PORT = 29500
"""Where rank 0 listens if nobody says (torch/distributed/run.py has the same default)."""


@dataclass(slots=True)
class _Notes:
    """What is said beside the plan, in the order it is found, each once."""

    warnings: dict[str, None] = field(default_factory=dict)
    assumed: dict[str, None] = field(default_factory=dict)

    def warn(self, text: str) -> None:
        self.warnings[text] = None

    def assume(self, text: str) -> None:
        self.assumed[text] = None


def plan(
    profile: Profile,
    pool: Pool,
    facts: Mapping[str, NodeFacts] | None,
    *,
    node_names: Sequence[str] | None = None,
) -> LaunchPlan:
    """Compute what runs where, with which environment and why.

    Args:
        profile: what to run.
        pool: where.
        facts: what the nodes said, by node name. None, or a node missing: the plan's `assumed` says what was
            taken for granted.
        node_names: use these nodes of the pool, in this order; the first is the head node.

    Raises:
        PlanError: profile, pool and facts do not fit together.
    """
    framework = frameworks.get(profile.framework)
    framework.check(profile)
    notes = _Notes()
    plan_checks.check_env(profile, framework, notes.warn)
    placement = place(profile, pool, facts, node_names=node_names)
    fabric = plan_fabric.variables(profile, pool, placement, facts or {})
    known = plan_fabric.met(facts or {}, fabric)
    for text in plan_fabric.warnings(fabric):
        notes.warn(text)
    plan_checks.check_gloo(profile, placement, known)
    plan_checks.check_visible(profile, placement, known, notes.warn)
    _note_assumptions(placement, pool, profile, known, notes)
    head = _head(profile, pool, placement, known, notes)
    nodes = []
    told: dict[str, Mapping[str, str]] = {}
    for share in placement.shares:
        found = known.get(share.node.name)
        job = _job(profile, pool, placement, share, head, known, fabric)
        work = framework.work(job)
        env = {**work.rank_env, **{k: v for process in work.processes for k, v in process.env.items()}}
        login = found.leftovers if found else {}
        told[share.node.name] = environment.replaced(login, work.reasons, env)
        for text in work.warnings:
            notes.warn(text)
        for text in work.assumed:
            notes.assume(text)
        gone = environment.removed(login, profile.env_from, framework.removes)
        nodes.append(
            NodePlan(
                node=share.node.name,
                node_rank=share.node_rank,
                address=job.address,
                ranks=share.ranks,
                processes=work.processes,
                env_removed=gone,
                env_kept=environment.kept(login, gone, (*env, *profile.env_from)),
                needs=_needs(profile, job, work.needs),
                rank_env=work.rank_env,
                cwd=job.cwd,
            )
        )
    plan_checks.check_sizes(nodes)
    reasons, differing = _reasons(told)
    _note_oddities(pool, placement, known, head, notes)
    return LaunchPlan(
        framework=profile.framework,
        world_size=placement.world_size,
        head=head,
        nodes=tuple(replace(node, reasons=differing[node.node]) for node in nodes),
        reasons=reasons,
        warnings=tuple(notes.warnings),
        setup=profile.setup,
        env_from=profile.env_from,
        assumed=tuple(notes.assumed),
        stop=profile.stop,
        barrier_timeout=profile.barrier_timeout,
    )


def _reasons(told: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """One reason for each variable, and each node's own where they differ.

    Args:
        told: each node's reasons, the head node's first.

    Returns:
        For all nodes: the first node's reason that has one, marked so where another has another; and by node
        those that are not the same everywhere.
    """
    by_name: dict[str, dict[str, str]] = {}
    for node, of_node in told.items():
        for name, why in of_node.items():
            by_name.setdefault(name, {})[node] = why
    for_all = {}
    differing: dict[str, dict[str, str]] = {node: {} for node in told}
    for name, whys in by_name.items():
        first, why = next(iter(whys.items()))
        alike = len(set(whys.values())) == 1
        for_all[name] = why if alike else f"on {first}: {why}"
        for node, own in () if alike else whys.items():
            differing[node][name] = own
    return for_all, differing


def address_of(node: PoolNode, found: NodeFacts | None) -> str:
    """The address other nodes reach a node at: what it said, else the pool's host."""
    return found.address if found and found.address else node.host


def _job(
    profile: Profile,
    pool: Pool,
    placement: Placement,
    share: Share,
    head: Head,
    known: Mapping[str, NodeFacts],
    fabric: FabricVariables | None,
) -> NodeJob:
    found = known.get(share.node.name)
    home = found.home if found else ""
    python = expand_home(profile.python, home)
    if profile.script is not None:
        program: tuple[str, ...] = (python, "-u", expand_home(profile.script, home))
    elif profile.module is not None:
        program = (python, "-u", "-m", profile.module)
    else:
        program = tuple(expand_home(word, home) for word in profile.command)
    common = environment.common(
        share,
        placement,
        pool,
        known,
        fabric=plan_fabric.of_ranks(fabric, share.node.name),
        ranks_start_more=frameworks.get(profile.framework).starts_more(profile),
    )
    return NodeJob(
        profile=profile,
        pool=pool,
        placement=placement,
        share=share,
        head=head,
        address=address_of(share.node, found),
        cwd=expand_home(profile.workdir, home),
        python=python,
        program=program,
        args=tuple(expand_home(word, placeholders.escape(home)) for word in profile.args),
        common=(
            *common,
            *plan_fabric.of_reports(fabric, profile, share.node.name),
            *environment.asked_for(profile, head, placement),
        ),
        facts=known,
        fabric=plan_fabric.of_mpirun(fabric, share.node.name),
    )


def _head(
    profile: Profile, pool: Pool, placement: Placement, known: Mapping[str, NodeFacts], notes: _Notes
) -> Head:
    node = placement.shares[0].node
    found = known.get(node.name)
    port = profile.master_port
    if port is None and found is not None:
        port = found.free_port
    if port is None:
        port = DEFAULT_PORT
        notes.assume(f"master_port: {DEFAULT_PORT}; the head node {node.name} was not asked for a free port")
    if port < 1024:
        notes.warn(f"master_port = {port}: ports below 1024 are for root alone on most systems")
    return Head(node.name, address_of(node, found), port)


def _needs(profile: Profile, job: NodeJob, own: tuple[Need, ...]) -> tuple[Need, ...]:
    needs = [Need("dir", job.cwd, why="workdir")]
    if profile.script is not None or profile.module is not None or any(need.by for need in own):
        needs.append(Need("program", job.python, why="python"))
    if profile.script is not None:
        needs.append(Need("file", job.program[-1], why="script"))
    elif profile.module is not None:
        needs.append(Need("module", profile.module, by=job.python, why="module"))
    else:
        needs.append(Need("program", job.program[0], why="command"))
    return (*needs, *own)


def _note_assumptions(
    placement: Placement, pool: Pool, profile: Profile, known: Mapping[str, NodeFacts], notes: _Notes
) -> None:
    unknown = [share.node.name for share in placement.shares if share.node.name not in known]
    if not unknown:
        return
    names = ", ".join(unknown[:4]) + (f" and {len(unknown) - 4} more" if len(unknown) > 4 else "")
    if pool.slots is None and any(s.node.slots is None and s.node.name in unknown for s in placement.shares):
        notes.assume(f"slots: 1 a node, or as many as the profile asks for; GPUs of {names} not counted")
    notes.assume(f"address: the pool's host names for {names}")
    if len(placement.shares) > 1 and pool.interface is None and pool.backend is not BackendKind.LOCAL:
        variables = " and ".join(environment.INTERFACE_VARIABLES)
        notes.assume(f"interface: not known for {names}, so {variables} are not set")
    notes.assume(f"OMP_NUM_THREADS: not set, CPUs of {names} not counted")
    notes.assume(f"environment of {names}: no variables of other launchers found, so none listed as removed")
    if any(
        word.startswith("~")
        for word in (profile.workdir, profile.python, profile.script or "", *profile.command)
    ):
        notes.assume(f"~: left as it is, the home on {names} is not known")


def _note_oddities(
    pool: Pool, placement: Placement, known: Mapping[str, NodeFacts], head: Head, notes: _Notes
) -> None:
    if len(placement.shares) == 1 or pool.backend is BackendKind.LOCAL:
        return
    if head.address.startswith("127.") or head.address in ("::1", "localhost"):
        notes.warn(
            f"the head node {head.node} gives {head.address} as its address: no other node reaches it there"
        )
    machines: dict[str, list[str]] = {}
    for share in placement.shares:
        found = known.get(share.node.name)
        if found and found.machine:
            machines.setdefault(found.machine, []).append(share.node.name)
    for names in machines.values():
        if len(names) > 1:
            notes.warn(f"{', '.join(names)} are one machine: its CPUs and GPUs are shared between them")
