"""What a host file says, as values: nodes with slots, and what is to be said of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.model import PoolNode

PROBLEMS_SHOWN = 8
"""How many wrong lines one message lists."""


class Format(StrEnum):
    """Whose host file it is."""

    OPENMPI = "openmpi"
    DEEPSPEED = "deepspeed"
    MPICH = "mpich"
    HOROVOD = "horovod"
    PBS = "pbs"
    LSF = "lsf"
    SGE = "sge"
    SLURM = "slurm"
    PLAIN = "plain"


TITLES: Mapping[Format, str] = {
    Format.OPENMPI: "host slots=N a line (Open MPI, DeepSpeed)",
    Format.DEEPSPEED: "host slots=N a line (DeepSpeed)",
    Format.MPICH: "host:slots a line (MPICH, Intel MPI)",
    Format.HOROVOD: "host:slots,host:slots (Horovod)",
    Format.PBS: "a line for every slot (PBS_NODEFILE, LSB_DJOB_HOSTFILE, Open MPI)",
    Format.LSF: "hosts with slots as LSF gives them (LSB_MCPU_HOSTS, EXEC_HOST)",
    Format.SGE: "host slots queue processors a line (Grid Engine's PE_HOSTFILE)",
    Format.SLURM: "a node list with ranges (Slurm)",
    Format.PLAIN: "a host a line",
}
"""Each format in words."""


class Duplicates(StrEnum):
    """What to do with a host that has slots on several lines."""

    STOP = "stop"
    SUM = "sum"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without comment and blanks around it."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be said; `line` is None where it is about the whole."""

    line: int | None
    text: str

    def __str__(self) -> str:
        return self.text if self.line is None else f"line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that can't be read, or can be read in two ways."""

    lines: tuple[int, ...]
    text: str
    """What was found and what is allowed."""
    fix: str
    is_choice: bool = False
    """It can be read in two ways, and `Duplicates` says which."""

    def __str__(self) -> str:
        if not self.lines:
            return self.text
        word = "line" if len(self.lines) == 1 else "lines"
        return f"{word} {listed(self.lines)}: {self.text}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A host that is in the file and not in the pool."""

    host: str
    slots: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Hostfile:
    """What was understood of a host file."""

    format: Format
    why: str
    """What in it made that the format."""
    nodes: tuple[PoolNode, ...] = ()
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By a node's name, the lines it stands on."""
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Remark, ...] = ()
    problems: tuple[Problem, ...] = ()
    source: str = ""
    """The file, for messages; empty: whoever asked knows."""

    @property
    def slots(self) -> int | None:
        """How many ranks the nodes take together; None where one does not say."""
        each = [node.slots for node in self.nodes]
        return None if None in each else sum(slots or 0 for slots in each)

    def checked(self) -> Hostfile:
        """Itself, if all of it could be read.

        Raises:
            HostfileError: naming the lines that could not, with what was found and what is allowed.
        """
        if self.problems:
            raise HostfileError(self)
        return self


class HostfileError(PoolError):
    """A host file that can't be used as it is.

    Attributes:
        found: what was understood.
    """

    def __init__(self, found: Hostfile) -> None:
        place = f"{found.source}: " if found.source else ""
        shown = [f"{place}{problem}" for problem in found.problems[:PROBLEMS_SHOWN]]
        more = len(found.problems) - len(shown)
        if more:
            shown.append(f"and {more} more")
        fixes = dict.fromkeys(problem.fix for problem in found.problems[:PROBLEMS_SHOWN] if problem.fix)
        super().__init__("\n".join(shown), "\n".join([*fixes, f"read as: {found.format} ({found.why})"]))
        self.found = found


def listed(numbers: tuple[int, ...]) -> str:
    """`1, 2 and 4`."""
    head, last = numbers[:-1], numbers[-1]
    shown = ", ".join(map(str, head[:6])) + (", ..." if len(head) > 6 else "")
    return f"{shown} and {last}" if head else str(last)
