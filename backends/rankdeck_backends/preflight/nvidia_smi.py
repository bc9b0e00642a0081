"""What nvidia-smi's answers mean: tables with odd cells, lines about lost GPUs, links, processes.

Formats: `nvidia-smi --help-query-gpu` and its output on drivers 450 to 580; what is not a value is in square
brackets or `N/A`. Nothing here raises, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankdeck_backends.preflight.finding import Evidence
from rankdeck_profiles.readings import CommandReading, Readings

BROKEN = ("[gpu requires reset]", "[unknown error]", "[gpu is lost]", "err!")
"""Cells of a GPU that does not work now (NVML_ERROR_RESET_REQUIRED, _UNKNOWN, _GPU_IS_LOST)."""

_NO_VALUE = (
    "",
    "n/a",
    "[n/a]",
    "not supported",
    "[not supported]",
    "[insufficient permissions]",
    "[not found]",
)

_LOST = re.compile(r"Unable to determine the device handle for (?:GPU)?\s*(\S.*)|GPU is lost", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_LINK = re.compile(r"\s+Link\s+([0-9]+):\s*(.+?)\s*$")
_LISTED = re.compile(r"GPU ([0-9]+): ")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of all `--query-gpu` answers, joined by index."""

    index: str
    cells: Mapping[str, str]
    """Field as asked -> cell as printed."""

    def text(self, field: str) -> str | None:
        """A cell; None where it was not asked, does not apply, or the GPU could not say."""
        cell = self.cells.get(field, "")
        bare = cell.lower().strip("[]")
        return None if bare in _NO_VALUE or cell.lower() in BROKEN else cell

    def number(self, field: str) -> float | None:
        """The number a cell begins with, in the unit that the tool uses (MiB, %)."""
        found = _NUMBER.match(self.text(field) or "")
        return float(found.group()) if found else None

    def bits(self, field: str) -> int | None:
        """A mask such as `0x0000000000000001`."""
        try:
            return int(self.text(field) or "", 16)
        except ValueError:
            return None

    @property
    def broken(self) -> tuple[str, ...]:
        """The fields whose cell says that the GPU does not work."""
        return tuple(field for field, cell in self.cells.items() if cell.lower() in BROKEN)

    def evidence(self, field: str) -> Evidence:
        """One cell as evidence."""
        return Evidence.of(f"nvidia-smi --query-gpu={field}, GPU {self.index}", self.cells.get(field))


@dataclass(frozen=True, slots=True)
class Process:
    """A program that holds memory of a GPU."""

    gpu: str
    """The GPU's UUID."""
    pid: str
    name: str
    memory: str


@dataclass(frozen=True)
class Smi:
    """All that nvidia-smi said on one node, of the GPUs that a run uses."""

    readings: Readings
    used: frozenset[str] | None = None
    """Their indices; None: all."""

    @cached_property
    def queries(self) -> tuple[CommandReading, ...]:
        """The `--query-gpu` calls, in the order they were made."""
        return tuple(each for each in self._ran if _fields(each))

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The rows of the GPUs that the run uses, by index."""
        return tuple(gpu for gpu in self.rows if self._counts(gpu.index))

    @cached_property
    def unused(self) -> tuple[Gpu, ...]:
        """The rows of those that the pool or the person left out: what is wrong with them harms nobody."""
        return tuple(gpu for gpu in self.rows if not self._counts(gpu.index))

    def _counts(self, index: str) -> bool:
        return self.used is None or index in self.used

    @cached_property
    def rows(self) -> tuple[Gpu, ...]:
        """The rows of all GPUs, by index."""
        cells: dict[str, dict[str, str]] = {}
        for query in self.queries:
            for row in _rows(query.stdout, _fields(query)):
                cells.setdefault(row["index"], {}).update(row)
        return tuple(Gpu(index, cells[index]) for index in sorted(cells, key=lambda text: (len(text), text)))

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """The lines that say a GPU does not answer, each once."""
        texts = (text for each in self._ran for text in (each.stdout, each.stderr))
        lines = (line.strip() for text in texts for line in text.splitlines() if _LOST.search(line))
        return tuple(dict.fromkeys(lines))

    @cached_property
    def hung(self) -> CommandReading | None:
        """A call that had no answer in its time."""
        return next((each for each in self._ran if each.timed_out), None)

    @cached_property
    def refused(self) -> CommandReading | None:
        """The call that failed where there is not one row; None where there are rows, or nothing failed."""
        if self.rows:
            return None
        return next((each for each in self.queries if each.rc), None)

    @cached_property
    def processes(self) -> tuple[Process, ...] | None:
        """Who holds GPU memory; None: not asked, or no answer."""
        asked = next(
            (each for each in self._ran if any("query-compute-apps" in word for word in each.argv)), None
        )
        if asked is None or asked.rc != 0:
            return None
        found = (_process(line) for line in asked.stdout.splitlines())
        elsewhere = {gpu.text("uuid") for gpu in self.unused}
        return tuple(each for each in found if each is not None and each.gpu not in elsewhere)

    @cached_property
    def mig_instances(self) -> tuple[str, ...]:
        """The lines of `nvidia-smi -L` that name a MIG instance: they are indented below their GPU."""
        listed = self.readings.command("nvidia-smi", "-L")
        found, counts = [], True
        for line in listed.stdout.splitlines() if listed else []:
            if header := _LISTED.match(line):
                counts = self._counts(header[1])
            elif counts and line.startswith("  MIG "):
                found.append(line.strip())
        return tuple(found)

    @cached_property
    def links(self) -> Mapping[str, Mapping[str, str]] | None:
        """GPU index -> link -> `26.562 GB/s` or `<inactive>`; None: not asked, or no answer."""
        asked = self.readings.command("nvidia-smi", "nvlink", "-s")
        if asked is None or asked.rc != 0:
            return None
        return {index: links for index, links in _links(asked.stdout).items() if self._counts(index)}

    @cached_property
    def _ran(self) -> tuple[CommandReading, ...]:
        return tuple(self.readings.ran("nvidia-smi"))


def _fields(query: CommandReading) -> Sequence[str]:
    asked = next((word for word in query.argv if word.startswith("--query-gpu=")), "")
    fields = asked.partition("=")[2].split(",")
    return fields if "index" in fields else ()


def _rows(text: str, fields: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The lines that have a cell for each field and a number as their index: neither header nor message."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(fields):
            continue
        row = dict(zip(fields, cells, strict=True))
        if row["index"].isascii() and row["index"].isdecimal():
            yield row


def _process(line: str) -> Process | None:
    """One row; the program's name may itself hold `, `."""
    start = line.split(", ", 2)
    if len(start) < 3 or not start[1].strip().isdecimal():
        return None
    name, _, memory = start[2].rpartition(", ")
    return Process(start[0].strip(), start[1].strip(), name.strip(), memory.strip())


def _links(text: str) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    gpu = None
    for line in text.splitlines():
        if header := _LISTED.match(line):
            gpu = found.setdefault(header[1], {})
        elif gpu is not None and (link := _LINK.match(line)):
            gpu[link[1]] = link[2]
    return found
