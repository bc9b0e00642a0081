"""Which mpirun a run gets: what the nodes said, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.facts import MpiFacts, MpiFamily
from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.frameworks.mpi_dialect import Dialect

_NAMES = {MpiFamily.OPEN_MPI: "Open MPI", MpiFamily.MPICH: "MPICH", MpiFamily.INTEL: "Intel MPI"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The mpirun that all nodes agree on."""

    dialect: Dialect
    mpirun: str
    prefix: bool
    """It is at the same place on all nodes."""
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def choose(job: NodeJob, given: str | None) -> Chosen:
    """Compare the nodes' MPIs.

    Args:
        job: one node's job; its placement says which nodes take part.
        given: the path of mpirun in the profile.

    Raises:
        PlanError: a node has none, or the nodes have different families.
    """
    names = [share.node.name for share in job.placement.shares]
    asked: dict[str, MpiFacts] = {}
    for name in names:
        facts = job.facts.get(name)
        if facts is not None and facts.mpi is not None:
            asked[name] = facts.mpi
    _refuse_unusable(asked, given)
    by_dialect: dict[Dialect, list[str]] = {}
    for name, mpi in asked.items():
        by_dialect.setdefault(_dialect(mpi), []).append(name)
    if len(by_dialect) > 1:
        found = "; ".join(f"{dialect} on {_listed(where)}" for dialect, where in by_dialect.items())
        raise PlanError(
            f"the nodes have different MPIs: {found}",
            "they cannot run one world: load the same MPI in `setup`, or give its path as options.mpirun",
        )
    unknown = [name for name in names if name not in asked]
    assumed: tuple[str, ...] = ()
    if unknown:
        what = next(iter(by_dialect), Dialect.OPEN_MPI_4)
        assumed = (f"MPI family: {what}; {_listed(unknown)} not asked",)
    paths = {mpi.path for mpi in asked.values()}
    same = len(paths) <= 1
    path = (given and job.at_home(given)) or (next(iter(paths), "") if same else "") or "mpirun"
    return Chosen(
        dialect=next(iter(by_dialect), Dialect.OPEN_MPI_4),
        mpirun=path,
        prefix=same or given is not None,
        warnings=(*_version_warning(asked), *(() if same or given else _path_warning(asked))),
        assumed=assumed,
    )


def _dialect(mpi: MpiFacts) -> Dialect:
    if mpi.family is MpiFamily.MPICH:
        return Dialect.MPICH
    if mpi.family is MpiFamily.INTEL:
        return Dialect.INTEL
    major = mpi.version.partition(".")[0]
    return Dialect.OPEN_MPI_5 if major.isdigit() and int(major) >= 5 else Dialect.OPEN_MPI_4


def _refuse_unusable(asked: Mapping[str, MpiFacts], given: str | None) -> None:
    for name, mpi in asked.items():
        if mpi.family is MpiFamily.NONE:
            raise PlanError(
                f"node {name} has no {given or 'mpirun'}" + (f": {mpi.note}" if mpi.note else ""),
                "install Open MPI, MPICH or Intel MPI there, load it in `setup`, or give options.mpirun",
            )
        if mpi.family is MpiFamily.OTHER:
            raise PlanError(
                f"node {name}: {mpi.path or 'mpirun'} is of no family that is known"
                + (f": {mpi.note}" if mpi.note else ""),
                f"allowed: {', '.join(_NAMES.values())}; options.mpirun gives another path",
            )
        if mpi.library not in (None, mpi.family):
            library = _NAMES.get(mpi.library, "another MPI") if mpi.library else ""
            raise PlanError(
                f"node {name}: mpirun is {_NAMES[mpi.family]} {mpi.version}, but mpi4py of the profile's "
                f"python loads {library} {mpi.library_version}".rstrip(),
                "every rank would believe it is alone, as rank 0 of 1: use the mpirun of that MPI "
                "(options.mpirun, `setup`), or an mpi4py for this one",
            )


def _version_warning(asked: Mapping[str, MpiFacts]) -> tuple[str, ...]:
    by_version: dict[str, list[str]] = {}
    for name, mpi in asked.items():
        by_version.setdefault(f"{_NAMES[mpi.family]} {mpi.version}", []).append(name)
    if len(by_version) < 2:
        return ()
    found = "; ".join(f"{version} on {_listed(where)}" for version, where in by_version.items())
    return (f"the nodes have different versions of MPI, which may not talk to each other: {found}",)


def _path_warning(asked: Mapping[str, MpiFacts]) -> tuple[str, ...]:
    by_path: dict[str, list[str]] = {}
    for name, mpi in asked.items():
        by_path.setdefault(mpi.path, []).append(name)
    found = "; ".join(f"{path} on {_listed(where)}" for path, where in by_path.items())
    return (
        f"mpirun is not at the same place everywhere ({found}): its daemons must be on the PATH that ssh "
        "gives without a login",
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
