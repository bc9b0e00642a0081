"""The mpirun command lines: one dialect for each MPI family.

Common to all: the hosts and how many ranks each takes are always said (defaults are 1, or the cores); ranks
fill one node after the other, as in the plan; no binding unless asked for (the defaults bind to one core or
socket, which slows down data loaders); daemons are started by ssh, never by a scheduler that happens to be
around; ssh asks nothing and gives up after `CONNECT_TIMEOUT` seconds. The ranks' environment travels in the
plan, not on this command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from rankdeck_profiles.plan import FILES, RankSource
from rankdeck_profiles.settings import Setting

CONNECT_TIMEOUT = 10
"""Seconds that mpirun's ssh waits for a node."""

MANY_HOSTS = 64
"""From so many nodes on, Open MPI's ssh calls are made all at once (as horovodrun does)."""

HOSTS_FILE = "hosts"


class Dialect(StrEnum):
    """A way to write an mpirun command."""

    OPEN_MPI_4 = "Open MPI 4"
    OPEN_MPI_5 = "Open MPI 5"
    MPICH = "MPICH"
    INTEL = "Intel MPI"

    @property
    def is_open_mpi(self) -> bool:
        """Whether it is one of Open MPI's."""
        return self in (Dialect.OPEN_MPI_4, Dialect.OPEN_MPI_5)


OPEN_MPI_RANKS = RankSource(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    (
        "OMPI_[!M]*",
        "PMIX_*",
        "OMPI_MCA_orte_*",
        "OMPI_MCA_ess*",
        "OMPI_MCA_pmix*",
        "OMPI_MCA_hwloc_base_binding_policy",
        "OMPI_MCA_initial_wdir",
        "OMPI_MCA_mpi_oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle",
        "OMPI_MCA_rmaps_base_*",
        "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
    ),
)
"""`OMPI_COMM_WORLD_NODE_RANK` is the number on the node over all jobs there: never a node's rank.

Of the parameters (`OMPI_MCA_*`) only those that Open MPI sets for its ranks itself: a daemon also hands on
what it found in its own login. Beside them, `ranks` adds those of the command line.
"""

HYDRA_RANKS = RankSource(
    "PMI_RANK",
    "MPI_LOCALRANKID",
    "PMI_SIZE",
    ("PMI_*", "PMI2_*", "HYDI_*", "MPI_LOCAL*", "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", "I_MPI_[!H]*"),
)
"""What hydra sets for a rank (mpich/src/pm/hydra: proxy/pmip_cb.c; `-iface` in mpiexec/uiu.c). Its own
settings (`HYDRA_*`, `I_MPI_HYDRA_*`) are no rank's business, and a proxy hands on those of its login."""


@dataclass(frozen=True, slots=True)
class MpirunWish:
    """What the command line is to say."""

    mpirun: str
    hosts: tuple[tuple[str, int], ...]
    """Name or address of each node, and its ranks; the head first."""
    interface: str | None
    """Name, or network (`10.0.0.0/24`), for MPI's own connections; None: its choice."""
    bind: str
    transport: str
    ssh_args: tuple[str, ...]
    allow_root: bool
    prefix: bool
    """True: `mpirun` is at the same place on all nodes, and so are its daemons."""

    @property
    def world(self) -> int:
        """All ranks."""
        return sum(count for _, count in self.hosts)

    @property
    def even(self) -> bool:
        """Whether all nodes have the same number of ranks."""
        return len({count for _, count in self.hosts}) == 1

    @property
    def ssh_line(self) -> str:
        """The ssh arguments as the launchers take them: one text, split at blanks."""
        return " ".join(("-o BatchMode=yes", f"-o ConnectTimeout={CONNECT_TIMEOUT}", *self.ssh_args))


@dataclass(frozen=True, slots=True)
class Mpirun:
    """A command line, and what goes with it."""

    words: tuple[str, ...]
    env: tuple[Setting, ...] = ()
    """For mpirun itself."""
    rank_env: tuple[Setting, ...] = ()
    """For the ranks."""
    files: tuple[tuple[str, str], ...] = ()


def write(dialect: Dialect, wish: MpirunWish) -> Mpirun:
    """The command line of one dialect, up to the program."""
    return {
        Dialect.OPEN_MPI_4: _open_mpi_4,
        Dialect.OPEN_MPI_5: _open_mpi_5,
        Dialect.MPICH: _mpich,
        Dialect.INTEL: _intel,
    }[dialect](wish)


def ranks(dialect: Dialect, words: Sequence[str]) -> RankSource:
    """By which variables a rank knows who it is, and which of mpirun's it needs.

    Args:
        dialect: the mpirun's.
        words: its command line, whose parameters (`--mca NAME VALUE`) reach the ranks as variables.
    """
    if not dialect.is_open_mpi:
        return HYDRA_RANKS
    given = (name for flag, name in pairwise(words) if flag == "--mca")
    return replace(OPEN_MPI_RANKS, keep=(*OPEN_MPI_RANKS.keep, *(f"OMPI_MCA_{name}" for name in given)))


def own_variables(dialect: Dialect) -> tuple[str, ...]:
    """Globs over the variables of `[env]` that mpirun itself must see, too."""
    if dialect.is_open_mpi:
        return ("OMPI_*", "PRTE_*", "PMIX_*")
    return ("HYDRA_*", "I_MPI_*")


def daemon(dialect: Dialect) -> str | None:
    """The program beside mpirun that it starts on the other nodes."""
    return {
        Dialect.OPEN_MPI_4: "orted",
        Dialect.OPEN_MPI_5: "prted",
        Dialect.MPICH: "hydra_pmi_proxy",
        Dialect.INTEL: None,
    }[dialect]


def forwarding(launcher: Sequence[str], source: RankSource, names: Sequence[str]) -> tuple[str, ...]:
    """A launcher's words that also hand these variables to the ranks (for scripts that run by hand)."""
    if not names:
        return tuple(launcher)
    if source.rank == OPEN_MPI_RANKS.rank:
        return (launcher[0], *(word for name in names for word in ("-x", name)), *launcher[1:])
    words = list(launcher)
    words[words.index("-genvlist") + 1] += "," + ",".join(names)
    return tuple(words)


def _hosts(wish: MpirunWish) -> str:
    return ",".join(f"{host}:{count}" for host, count in wish.hosts)


def _open_mpi(wish: MpirunWish, *, launcher_mca: str, transports: str) -> list[str]:
    """What versions 4 and 5 share.

    Without `plm` and `ras` an allocation that is found (SLURM_JOB_ID is in many login shells) replaces the
    hosts given here. Tree spawning needs every node to be able to log in to every other.
    """
    words = [
        wish.mpirun,
        *(() if wish.prefix else ("--noprefix",)),
        "--host",
        _hosts(wish),
        "-np",
        str(wish.world),
        "--map-by",
        "slot",
        "--bind-to",
        wish.bind,
        launcher_mca,
        "ras",
        "^slurm,tm,pbs,lsf,gridengine",
    ]
    if wish.transport == "tcp":
        words += ["--mca", "pml", "ob1", "--mca", "btl", transports]
    elif wish.transport == "ucx":
        words += ["--mca", "pml", "ucx", "--mca", "osc", "ucx"]
    if wish.interface is not None:
        words += ["--mca", "btl_tcp_if_include", wish.interface]
    return words


def _root(wish: MpirunWish, *prefixes: str) -> tuple[Setting, ...]:
    if not wish.allow_root:
        return ()
    why = "options.allow_root: Open MPI refuses to run for root without it"
    return tuple(
        Setting(f"{prefix}_ALLOW_RUN_AS_ROOT{end}", "1", why)
        for prefix in prefixes
        for end in ("", "_CONFIRM")
    )


def _open_mpi_4(wish: MpirunWish) -> Mpirun:
    """ORTE; Open MPI 4.1 mpirun(1), ompi_info. Versions 2 to 4 read the same."""
    words = _open_mpi(wish, launcher_mca="--mca", transports="self,vader,tcp")
    words += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "ssh", "--mca", "plm_rsh_args", wish.ssh_line]
    words += ["--mca", "plm_rsh_no_tree_spawn", "1"]
    if len(wish.hosts) >= MANY_HOSTS:
        words += ["--mca", "plm_rsh_num_concurrent", str(len(wish.hosts))]
    if wish.interface is not None:
        words += ["--mca", "oob_tcp_if_include", wish.interface]
    return Mpirun((*words, "-x", "PATH"), env=_root(wish, "OMPI"))


def _open_mpi_5(wish: MpirunWish) -> Mpirun:
    """PRRTE; it takes no notice of ORTE's names (`plm_rsh_*`, `oob_tcp_*`), nor says so.

    Open MPI 5 mpirun(1); prrte/src/mca/schizo/ompi, src/runtime/prte_mca_params.c.
    """
    words = _open_mpi(wish, launcher_mca="--prtemca", transports="self,sm,tcp")
    words += ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", "ssh"]
    words += ["--prtemca", "plm_ssh_args", wish.ssh_line, "--prtemca", "plm_ssh_no_tree_spawn", "1"]
    if len(wish.hosts) >= MANY_HOSTS:
        words += ["--prtemca", "plm_ssh_num_concurrent", str(len(wish.hosts))]
    if wish.interface is not None:
        words += ["--prtemca", "prte_if_include", wish.interface]
    return Mpirun((*words, "-x", "PATH"), env=_root(wish, "OMPI", "PRTE"))


def _mpich(wish: MpirunWish) -> Mpirun:
    """Hydra (mpich/src/pm/hydra, options.c).

    It hands the whole of its own environment to all ranks unless a list is given. The transport is chosen
    when MPICH is built.
    """
    words = [wish.mpirun, "-hosts", _hosts(wish), "-n", str(wish.world), "-launcher", "ssh"]
    if wish.interface is not None and "/" not in wish.interface:
        words += ["-iface", wish.interface]
    words += ["-bind-to", wish.bind, "-genvlist", "PATH,LD_LIBRARY_PATH"]
    extra = Setting("HYDRA_LAUNCHER_EXTRA_ARGS", wish.ssh_line, "ssh asks nothing and gives up in time")
    return Mpirun(tuple(words), env=(extra,))


def _intel(wish: MpirunWish) -> Mpirun:
    """Intel MPI 2021 (developer reference: global hydra options, environment variables).

    `-hosts` takes no counts, so uneven ones go into a machine file. Placement given on the command line is
    ignored under a scheduler unless I_MPI_JOB_RESPECT_PROCESS_PLACEMENT says otherwise.
    """
    words = [wish.mpirun]
    files: tuple[tuple[str, str], ...] = ()
    if wish.even:
        words += ["-hosts", ",".join(host for host, _ in wish.hosts), "-ppn", str(wish.hosts[0][1])]
    else:
        files = ((HOSTS_FILE, "".join(f"{host}:{count}\n" for host, count in wish.hosts)),)
        words += ["-machinefile", f"{FILES}/{HOSTS_FILE}"]
    words += ["-n", str(wish.world), "-bootstrap", "ssh"]
    if wish.interface is not None and "/" not in wish.interface:
        words += ["-iface", wish.interface]
    words += ["-genvlist", "PATH,LD_LIBRARY_PATH"]
    env = [
        Setting(
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", wish.ssh_line, "ssh asks nothing and gives up in time"
        ),
        Setting("I_MPI_JOB_RESPECT_PROCESS_PLACEMENT", "0", "the placement of the plan, not a scheduler's"),
    ]
    both = []
    if wish.bind == "none":
        both.append(Setting("I_MPI_PIN", "0", "no binding: options.bind"))
    else:
        both.append(Setting("I_MPI_PIN_DOMAIN", wish.bind, "options.bind"))
    if wish.transport == "tcp":
        both.append(Setting("I_MPI_FABRICS", "shm:ofi", "options.transport"))
        both.append(Setting("FI_PROVIDER", "tcp", "options.transport"))
        if wish.interface is not None and "/" not in wish.interface:
            both.append(Setting("FI_TCP_IFACE", wish.interface, "the nodes' network interface"))
    elif wish.transport == "ucx":
        both.append(Setting("I_MPI_FABRICS", "shm:ofi", "options.transport"))
        both.append(Setting("FI_PROVIDER", "mlx", "options.transport"))
    return Mpirun(tuple(words), env=(*env, *both), rank_env=tuple(both), files=files)
