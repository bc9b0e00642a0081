"""Host files as people have them, read into nodes: which format it is, what was understood, what was odd.

Pure: text in, values out. Each format has its reader; `detect` says which one fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from rankdeck_profiles.hostfiles import horovod, lsf, mpich, openmpi, plain, sge, slurm
from rankdeck_profiles.hostfiles.detect import detect
from rankdeck_profiles.hostfiles.lines import lines_of
from rankdeck_profiles.hostfiles.model import (
    TITLES,
    Duplicates,
    Format,
    Hostfile,
    HostfileError,
    LeftOut,
    Line,
    Problem,
    Remark,
)
from rankdeck_profiles.hostfiles.page import Page

__all__ = [
    "MAX_BYTES",
    "TITLES",
    "Duplicates",
    "Format",
    "Hostfile",
    "HostfileError",
    "LeftOut",
    "Problem",
    "Remark",
    "read",
    "read_slurm",
]

MAX_BYTES = 16 << 20
"""The largest host file that is read: PBS writes a line for every slot of thousands of nodes."""

_READERS: Mapping[Format, Callable[[Sequence[Line], Page], None]] = {
    Format.OPENMPI: openmpi.read,
    Format.DEEPSPEED: openmpi.read,
    Format.MPICH: mpich.read,
    Format.HOROVOD: horovod.read,
    Format.PBS: plain.read,
    Format.LSF: lsf.read,
    Format.SGE: sge.read,
    Format.SLURM: plain.read,
    Format.PLAIN: plain.read,
}
_VARIABLE = re.compile(r"(?:export\s+)?((?:LSB|SLURM)_[A-Z_]+)=(.*)", re.ASCII)
_LISTS = {
    "SLURM_JOB_NODELIST": Format.SLURM,
    "SLURM_NODELIST": Format.SLURM,
    "LSB_MCPU_HOSTS": Format.LSF,
    "LSB_HOSTS": Format.LSF,
}


def read(
    text: str, *, form: Format | None = None, duplicates: Duplicates = Duplicates.STOP, why: str = ""
) -> Hostfile:
    """Understand a host file.

    Args:
        text: all of it; also a scheduler's variable as `env` prints it (`LSB_MCPU_HOSTS=...`).
        form: the format; None: it is found out.
        duplicates: what to do with a host that has slots on several lines.
        why: why it has the format that is given, for people.

    Returns:
        The nodes in the order of the file, each once. What can't be read is in `problems`, with its line.
    """
    lines, notes = lines_of(text)
    variables = {
        match[1]: match[2].strip("\"' ") for line in lines if (match := _VARIABLE.fullmatch(line.text))
    }
    if form is None and variables and len(variables) == len(lines):
        return _of_variables(variables, duplicates)
    found, reason = (form, why or "as asked for") if form is not None else detect(lines)
    page = Page(found, reason, notes=notes)
    _READERS[found](lines, page)
    return page.result(duplicates)


def read_slurm(nodelist: str, tasks: str = "", *, why: str = "SLURM_JOB_NODELIST") -> Hostfile:
    """The nodes of a Slurm allocation.

    Args:
        nodelist: SLURM_JOB_NODELIST.
        tasks: SLURM_TASKS_PER_NODE; empty: not known.
        why: where it is from, for people.
    """
    page = Page(Format.SLURM, why)
    slurm.read(nodelist, tasks, page)
    return page.result(Duplicates.STOP)


def _of_variables(variables: Mapping[str, str], duplicates: Duplicates) -> Hostfile:
    name = next((name for name in _LISTS if name in variables), None)
    if name is None:
        page = Page(Format.PLAIN, "variables of a scheduler")
        page.wrong(
            Line(1, next(iter(variables))), "it holds no list of hosts", f"allowed: {', '.join(_LISTS)}"
        )
        return page.result(duplicates)
    if _LISTS[name] is Format.SLURM:
        return read_slurm(variables[name], variables.get("SLURM_TASKS_PER_NODE", ""), why=name)
    return read(variables[name], form=Format.LSF, duplicates=duplicates, why=name)
