"""What readers write down while they go through a host file, and how one host on several lines is settled."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankdeck_profiles.hostfiles.model import (
    Duplicates,
    Format,
    Hostfile,
    LeftOut,
    Line,
    Problem,
    Remark,
    listed,
)
from rankdeck_profiles.model import PoolNode
from rankdeck_profiles.nodes import named

COUNTED = frozenset({Format.PBS, Format.PLAIN, Format.OPENMPI, Format.MPICH, Format.LSF})
"""Formats in which a host that is written again without slots has one slot more (Open MPI's manual,
"hostfile"; PBS_NODEFILE; LSB_HOSTS). DeepSpeed refuses it
(launcher/runner.py, "Hostfile contains multiple entries")."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A host as one line has it."""

    line: int
    host: str
    slots: int | None
    user: str | None
    port: int | None


@dataclass(slots=True)
class Page:
    """All that was read so far."""

    format: Format
    why: str
    found: list[_Found] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def add(
        self, line: Line, host: str, slots: int | None, user: str | None = None, port: int | None = None
    ) -> None:
        """A host with what its line says of it."""
        self.found.append(_Found(line.number, host, slots, user, port))

    def note(self, line: Line | None, text: str) -> None:
        """Something a person should know."""
        self.notes.append(Remark(line.number if line else None, text))

    def wrong(self, line: Line, text: str, fix: str = "") -> None:
        """A line that can't be read."""
        self.problems.append(Problem((line.number,), f"`{line.text[:80]}`: {text}", fix))

    def result(self, duplicates: Duplicates) -> Hostfile:
        """The nodes, each once."""
        by_place: dict[tuple[str, int | None], list[_Found]] = {}
        for each in self.found:
            by_place.setdefault((each.host, each.port), []).append(each)
        counting = self.format is Format.PBS or (
            self.format in COUNTED and all(each.slots is None for each in self.found)
        )
        repeated = any(len(group) > 1 for group in by_place.values()) or self.format is Format.PBS
        nodes, lines = [], []
        for group in by_place.values():
            slots = len(group) if counting and repeated else self._settled(group, duplicates)
            user = next((each.user for each in group if each.user), None)
            nodes.append(PoolNode(group[0].host, group[0].host, user, group[0].port, slots))
            lines.append(tuple(dict.fromkeys(each.line for each in group)))
        if not nodes and not self.problems:
            self.problems.append(
                Problem((), "it names no node", "write a host a line, such as gpu01 slots=8")
            )
        self._note_short_names()
        members = named(nodes)
        by_name = dict(zip((node.name for node in members), lines, strict=True))
        return Hostfile(
            self.format,
            self.why,
            members,
            by_name,
            tuple(self.left_out),
            tuple(self.notes),
            tuple(self.problems),
        )

    def _note_short_names(self) -> None:
        """A name, and another that goes on with a domain: preflight sees if they are one machine."""
        whole = {each.host.partition(".")[0].lower(): each for each in self.found if "." in each.host}
        for host, line in {each.host: each.line for each in self.found if "." not in each.host}.items():
            if (other := whole.get(host.lower())) is not None and not other.host[0].isdigit():
                text = (
                    f"{host} and {other.host} (line {other.line}) may be one machine; they are two nodes here"
                )
                self.note(Line(line, ""), text)

    def _settled(self, group: list[_Found], duplicates: Duplicates) -> int | None:
        """The slots of a host that may stand on several lines."""
        first = group[0]
        if len(group) == 1:
            return first.slots
        where = tuple(each.line for each in group)
        each_says = " and ".join("none" if each.slots is None else str(each.slots) for each in group[:4])
        if self.format is Format.SLURM:
            self.note(Line(first.line, ""), f"{first.host} is named {len(group)} times; it is one node")
            return first.slots
        if duplicates is Duplicates.STOP:
            self.problems.append(
                Problem(
                    tuple(dict.fromkeys(where)),
                    f"{first.host} is there {len(group)} times, with slots {each_says}",
                    "correct the file, or choose: --duplicates sum adds them up, --duplicates first keeps "
                    "the first",
                    is_choice=True,
                )
            )
            return first.slots
        kept = sum(each.slots or 1 for each in group) if duplicates is Duplicates.SUM else first.slots
        how = "added up" if duplicates is Duplicates.SUM else "the first kept"
        self.note(None, f"{first.host} on lines {listed(where)}: slots {each_says}, {how}: {kept}")
        return kept
