"""Which format a host file has, and what in it says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankdeck_profiles import ranges
from rankdeck_profiles.hostfiles import lsf, sge
from rankdeck_profiles.hostfiles.model import Format, Line

_KEY = re.compile(r"\s[A-Za-z_-]+\s*=", re.ASCII)
_HYDRA = re.compile(r"\s(?:binding|ifname)=", re.ASCII)
_COUNTED = re.compile(r"[^:,@\s\[\]]+:\d+", re.ASCII)


def detect(lines: Sequence[Line]) -> tuple[Format, str]:
    """The format and why: the first line that can belong to one format only decides.

    Args:
        lines: those that say something; may be none.
    """
    for line in lines:
        if sge.is_line(line.text.split()):
            return Format.SGE, f"line {line.number} has host, slots and queue"
    for line in lines:
        if _HYDRA.search(line.text):
            return Format.MPICH, f"line {line.number} has a word of MPICH's mpiexec"
        if _KEY.search(line.text):
            return Format.OPENMPI, f"line {line.number} has words such as slots=N behind the host"
    if any(lsf.is_times(word) for line in lines for word in re.split(r"[\s:]+", line.text)):
        return Format.LSF, "N*host, as LSF's bjobs writes it"
    if len(lines) == 1:
        return _of_one_line(lines[0])
    for line in lines:
        counted = [word for word in ranges.split(line.text) if _COUNTED.fullmatch(word)]
        if counted:
            return Format.MPICH, f"line {line.number} has {counted[0]}"
    for line in lines:
        if "[" in line.text.replace("[", "", line.text.startswith("[")) or "," in line.text:
            return Format.SLURM, f"line {line.number} has a range or a list"
    hosts = [line.text for line in lines]
    if len(set(hosts)) < len(hosts):
        return Format.PBS, "hosts are there on several lines: each line is a slot"
    return Format.PLAIN, "each line has a host and nothing more"


def _of_one_line(line: Line) -> tuple[Format, str]:
    words = line.text.split()
    if lsf.is_pairs(words):
        return Format.LSF, "host N host N, as LSB_MCPU_HOSTS"
    parts = ranges.split(line.text)
    counted = [_COUNTED.fullmatch(part.rpartition("@")[2]) is not None for part in parts]
    if "," in line.text and all(counted):
        return Format.HOROVOD, "host:N,host:N on one line"
    if any(counted):
        return Format.MPICH, f"it has {parts[counted.index(True)]}"
    if len(parts) > 1 and "," not in line.text and "[" not in line.text:
        return Format.LSF, "hosts on one line, as LSB_HOSTS"
    if len(parts) > 1 or "[" in line.text[1:]:
        return Format.SLURM, "it is a list, or has ranges"
    return Format.PLAIN, "it is one host"
