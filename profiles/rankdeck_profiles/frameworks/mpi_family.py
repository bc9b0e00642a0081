"""What `mpi`, `horovod` and `deepspeed` share: one mpirun on the head node, whose ranks are the world.

The head's process is mpirun with all ranks; the other nodes have none of their own. Every rank's shim takes
RANK from MPI's variables, the rest from its node's `rank_env`, and gives the program the node's environment
rather than what mpirun or ssh made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from rankdeck_profiles import placeholders
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork, Option
from rankdeck_profiles.frameworks.identity import PER_RANK, rank_settings
from rankdeck_profiles.frameworks.mpi_dialect import (
    Dialect,
    Mpirun,
    MpirunWish,
    daemon,
    own_variables,
    ranks,
    write,
)
from rankdeck_profiles.frameworks.mpi_facts import Chosen, choose
from rankdeck_profiles.model import BackendKind, Profile
from rankdeck_profiles.plan import Need, Process, ProcessKind, RankSource
from rankdeck_profiles.settings import Setting, merge

OPTIONS: Mapping[str, Option] = {
    "mpirun": Option("text", "the mpirun to use; else the one on PATH after `setup`", None),
    "bind": Option("text", "what each rank is bound to", "none", ("none", "core", "socket", "numa")),
    "transport": Option(
        "text",
        "how MPI itself moves data: tcp works everywhere and is enough where NCCL does the work; ucx for "
        "InfiniBand; auto is MPI's own choice",
        "tcp",
        ("tcp", "ucx", "auto"),
    ),
    "allow_root": Option("switch", "let Open MPI run for root", False),
    "ssh_args": Option("text", "further arguments of the ssh that mpirun calls, as one text", None),
}

_ORTE_NAMES = ("OMPI_MCA_orte_*", "OMPI_MCA_plm_rsh_*", "OMPI_MCA_oob_*")


class MpiFramework(Framework):
    """One mpirun for all."""

    options = OPTIONS
    asks_mpi = True
    sets_itself = frozenset(
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "OMPI_COMM_WORLD_NODE_RANK",
            "PMI_RANK",
            "PMI_SIZE",
            "MPI_LOCALRANKID",
            "MPI_LOCALNRANKS",
        )
    )
    module: ClassVar[str | None] = None
    """A Python module that the ranks need."""

    def rank_settings(self, job: NodeJob) -> Sequence[Setting]:
        """Variables that the framework's ranks have beside those of every rank."""
        return ()

    def work(self, job: NodeJob) -> NodeWork:
        """Mpirun on the head, nothing elsewhere; everywhere the ranks' environment."""
        chosen = choose(job, self.option(job.profile, "mpirun"))
        self._refuse_root(job, chosen.dialect)
        interface, interface_warning = _interface(job, chosen.dialect)
        wish = MpirunWish(
            mpirun=chosen.mpirun,
            hosts=_hosts(job),
            interface=interface,
            bind=self.option(job.profile, "bind"),
            transport=self.option(job.profile, "transport"),
            ssh_args=_ssh_args(job, self.option(job.profile, "ssh_args")),
            allow_root=self.option(job.profile, "allow_root"),
            prefix=chosen.prefix,
        )
        command = write(chosen.dialect, wish)
        source = ranks(chosen.dialect)
        rank_env, reasons = self._rank_env(job, command, source)
        processes: tuple[Process, ...] = ()
        warnings: tuple[str, ...] = ()
        if job.is_head:
            process, why = self._mpirun(job, command, chosen.dialect, source)
            processes = (process,)
            reasons = {**why, **reasons}
            warnings = (
                *chosen.warnings,
                *interface_warning,
                *_login_warnings(job),
                *_ignored(job.profile, chosen.dialect),
            )
        return NodeWork(
            processes,
            reasons,
            rank_env=rank_env,
            needs=self._needs(job, chosen),
            warnings=warnings,
            assumed=chosen.assumed,
        )

    def _rank_env(
        self, job: NodeJob, command: Mpirun, source: RankSource
    ) -> tuple[dict[str, str], dict[str, str]]:
        identity = rank_settings(job, job.share.ranks[0], 0)
        shared = tuple(setting for setting in identity if setting.name not in PER_RANK)
        env, reasons = merge(
            (*shared, *self.rank_settings(job), *command.rank_env, *job.common), job.profile.env
        )
        reasons["RANK"] = f"from {source.rank}, by which mpirun numbers its ranks"
        reasons["LOCAL_RANK"] = "the rank's place on its node in this plan; chooses the GPU"
        return env, reasons

    def _mpirun(
        self, job: NodeJob, command: Mpirun, dialect: Dialect, source: RankSource
    ) -> tuple[Process, dict[str, str]]:
        wanted = own_variables(dialect)
        own = {
            name: value
            for name, value in job.profile.env.items()
            if any(fnmatchcase(name, pattern) for pattern in wanted)
        }
        connections = job.fabric or () if dialect.is_open_mpi else ()
        env, reasons = merge((*command.env, *connections), own)
        shares = job.placement.shares
        process = Process(
            ranks=tuple(rank for share in shares for rank in share.ranks),
            local_ranks=tuple(local for share in shares for local in share.local_ranks),
            launcher=command.words,
            program=(*(placeholders.escape(word) for word in job.program), *job.args),
            cwd=job.cwd,
            env=env,
            fill=True,
            kind=ProcessKind.MPIRUN,
            rank_from=source,
            files=dict(command.files),
        )
        return process, reasons

    def _refuse_root(self, job: NodeJob, dialect: Dialect) -> None:
        found = job.found
        if not job.is_head or found is None or found.uid != 0 or not dialect.is_open_mpi:
            return
        if not self.option(job.profile, "allow_root"):
            raise PlanError(
                f"the login on node {job.share.node.name} is root, for which Open MPI refuses to run",
                "log in as another user, or set options.allow_root = true",
            )

    def _needs(self, job: NodeJob, chosen: Chosen) -> tuple[Need, ...]:
        needs = []
        if job.is_head:
            needs.append(Need("program", chosen.mpirun, why="framework"))
        elif (name := daemon(chosen.dialect)) is not None and job.pool.backend is not BackendKind.LOCAL:
            folder = chosen.mpirun.rpartition("/")[0]
            needs.append(Need("program", f"{folder}/{name}" if folder else name, why="framework"))
        if self.module is not None:
            needs.append(Need("module", self.module, by=job.python, why="framework"))
        return tuple(needs)


def _hosts(job: NodeJob) -> tuple[tuple[str, int], ...]:
    """Each node and its ranks. A run on one machine needs no ssh to itself."""
    shares = job.placement.shares
    if len(shares) == 1 or job.pool.backend is BackendKind.LOCAL:
        return (("localhost", job.placement.world_size),)
    hosts = []
    for share in shares:
        address = job.address_of(share)
        if ":" in address:  # `host:slots` leaves no room for an IPv6 address
            address = share.node.host
        if ":" in address:
            raise PlanError(
                f"node {share.node.name} has the IPv6 address {address}, "
                "which mpirun's host list cannot hold",
                "name the node by its host name in the pool, or set `interface` to one with an IPv4 address",
            )
        hosts.append((address, len(share.ranks)))
    return tuple(hosts)


def _interface(job: NodeJob, dialect: Dialect) -> tuple[str | None, tuple[str, ...]]:
    """The interface or network for MPI's own connections, and a warning where there is none to name.

    None without a warning where it is in mpirun's environment (`NodeJob.fabric`).
    """
    if dialect.is_open_mpi and job.fabric is not None:
        return None, ()
    shares = job.placement.shares
    if len(shares) == 1 or job.pool.backend is BackendKind.LOCAL:
        return None, ()
    if job.pool.interface is not None:
        return job.pool.interface, ()
    found = [job.facts.get(share.node.name) for share in shares]
    names = {facts.interface if facts else None for facts in found}
    if len(names) == 1:
        return next(iter(names)), ()
    networks = {facts.network if facts else None for facts in found}
    if len(networks) == 1 and (network := next(iter(networks))) is not None:
        return network, ()
    listed = ", ".join(
        f"{share.node.name} {(facts.interface if facts else None) or 'unknown'}"
        for share, facts in zip(shares, found, strict=True)
    )
    return None, (
        f"the nodes' network interfaces have different names ({listed}): MPI chooses among them itself; "
        "`interface` in the pool settles it",
    )


def _ssh_args(job: NodeJob, given: str | None) -> tuple[str, ...]:
    ports = {share.node.port for share in job.placement.shares[1:]}
    port = next(iter(ports)) if len(ports) == 1 else None
    words = () if port is None else (f"-p {port}",)
    return (*words, *((given,) if given else ()))


def _login_warnings(job: NodeJob) -> tuple[str, ...]:
    """Mpirun logs in from the head node, with one set of ssh arguments for all."""
    if job.pool.backend is BackendKind.LOCAL:
        return ()
    warnings = []
    head, *others = (share.node for share in job.placement.shares)
    if len({node.port for node in others}) > 1:
        found = ", ".join(f"{node.name} {node.port or 22}" for node in others)
        warnings.append(
            f"mpirun takes one ssh port for all nodes, and theirs differ ({found}): "
            f"put them into ~/.ssh/config on {head.name}"
        )
    if any(node.user != head.user for node in others):
        found = ", ".join(f"{node.user or 'the default'} on {node.name}" for node in others)
        warnings.append(
            f"mpirun logs in from {head.name} as its user there, and the pool's users differ ({found}): "
            f"put them into ~/.ssh/config on {head.name}"
        )
    return tuple(warnings)


def _ignored(profile: Profile, dialect: Dialect) -> tuple[str, ...]:
    """Names of Open MPI 4 that 5 passes over without a word: the run may shrink to one node."""
    if dialect is not Dialect.OPEN_MPI_5:
        return ()
    return tuple(
        f"{name} in [env] has no effect: Open MPI 5 reads PRTE_MCA_* in its place"
        for name in profile.env
        if any(fnmatchcase(name, pattern) for pattern in _ORTE_NAMES)
    )
