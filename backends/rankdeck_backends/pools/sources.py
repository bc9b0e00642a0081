"""Nodes read from a file, standard input, the allocation we are inside of, or the ssh config."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rankdeck_backends.pools import ssh_hosts
from rankdeck_profiles import hostfiles
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.hostfiles import MAX_BYTES, Duplicates, Format, Hostfile
from rankdeck_profiles.source import content, decode

SSH_CONFIG = "ssh-config"
"""`--from ssh-config`: the Host names of the user's ssh config."""

STDIN = "-"


class SourceError(PoolError):
    """There is no list of nodes where one was to be."""


def read_source(
    source: str,
    patterns: Sequence[str] = (),
    *,
    form: Format | None = None,
    duplicates: Duplicates = Duplicates.STOP,
    environ: Mapping[str, str] = os.environ,
) -> Hostfile:
    """Read a list of nodes.

    Args:
        source: a path, `-` (standard input), `ssh-config`, or one of `SCHEDULERS`.
        patterns: for `ssh-config`: which Host names; none: all.
        form: the format of a file; None: it is found out.
        duplicates: what to do with a host that has slots on several lines.
        environ: this process's variables.

    Returns:
        What was understood, problems included.

    Raises:
        PoolError: there is no such file or allocation, or it can't be read.
    """
    if source == SSH_CONFIG:
        return replace(ssh_hosts.read(patterns), source="the ssh config")
    if source in SCHEDULERS:
        found = SCHEDULERS[source](environ)
        return replace(found, source=found.source or found.why)
    return read_file(source, form=form, duplicates=duplicates)


def read_file(
    source: str, *, form: Format | None = None, duplicates: Duplicates = Duplicates.STOP, why: str = ""
) -> Hostfile:
    """Read a host file; `-` is standard input. Raises as `read_source`."""
    path = Path(os.path.expanduser(source))
    try:
        if source == STDIN:
            path, raw = Path("standard input"), sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            raw = content(path, MAX_BYTES + 1)
    except OSError as problem:
        hint = f"allowed: a file, -, {SSH_CONFIG}, {', '.join(SCHEDULERS)}" if not why else ""
        raise SourceError(f"{path}: cannot be read: {problem.strerror}", hint) from None
    if len(raw) > MAX_BYTES:
        raise SourceError(f"{path}: larger than {MAX_BYTES} bytes; that is no host file")
    # A byte order mark stays, so that it can be told.
    text = decode(raw, path, SourceError)
    mark = "\ufeff" if raw.startswith(b"\xef\xbb\xbf") else ""
    found = hostfiles.read(mark + text, form=form, duplicates=duplicates, why=why)
    return replace(found, source=str(path))


def _slurm(environ: Mapping[str, str]) -> Hostfile:
    nodelist = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    if not nodelist:
        raise _not_inside("Slurm", "SLURM_JOB_NODELIST", "salloc or sbatch")
    tasks = environ.get("SLURM_TASKS_PER_NODE", "")
    return hostfiles.read_slurm(nodelist, tasks, why="the allocation's SLURM_JOB_NODELIST")


def _pbs(environ: Mapping[str, str]) -> Hostfile:
    path = environ.get("PBS_NODEFILE")
    if not path:
        raise _not_inside("PBS", "PBS_NODEFILE", "qsub")
    return read_file(path, form=Format.PBS, why=f"PBS_NODEFILE {path}")


def _lsf(environ: Mapping[str, str]) -> Hostfile:
    """LSF leaves LSB_HOSTS out where it would be long, so it comes last."""
    if path := environ.get("LSB_DJOB_HOSTFILE"):
        return read_file(path, form=Format.LSF, why=f"LSB_DJOB_HOSTFILE {path}")
    for name in ("LSB_MCPU_HOSTS", "LSB_HOSTS"):
        if text := environ.get(name):
            return hostfiles.read(text, form=Format.LSF, why=f"the allocation's {name}")
    raise _not_inside("LSF", "LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS and LSB_HOSTS", "bsub")


def _sge(environ: Mapping[str, str]) -> Hostfile:
    path = environ.get("PE_HOSTFILE")
    if not path:
        raise _not_inside("Grid Engine", "PE_HOSTFILE", "qsub or qrsh with a parallel environment")
    return read_file(path, form=Format.SGE, why=f"PE_HOSTFILE {path}")


def _not_inside(scheduler: str, variables: str, command: str) -> SourceError:
    return SourceError(
        f"not inside a job of {scheduler}: {variables} not set", f"run it in a job's shell ({command})"
    )


SCHEDULERS: Mapping[str, Callable[[Mapping[str, str]], Hostfile]] = {
    "slurm": _slurm,
    "pbs": _pbs,
    "lsf": _lsf,
    "sge": _sge,
}
"""Schedulers whose allocation can be read from inside."""
