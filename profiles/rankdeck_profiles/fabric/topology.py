"""How near GPUs and network cards are to each other, as `nvidia-smi topo -m` draws it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankdeck_profiles.readings import Readings

NEAR = ("PIX", "PXB")
"""Through PCI bridges only: a card can read that GPU's memory at full speed (nvidia-smi's own legend)."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(frozen=True, slots=True)
class Topology:
    """The table, with the network cards by their device names."""

    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """GPU (`GPU0`) -> other GPU -> `NV18`, `PIX`, `SYS`."""
    nics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """GPU -> RDMA device -> `PIX`, `PXB`, `PHB`, `NODE`, `SYS`."""

    def best(self, gpu: str) -> tuple[str, str] | None:
        """The nearest network card and how near; None: no card is shown."""
        order = ("PIX", "PXB", "PHB", "NODE", "SYS", "SOC")
        known = [(device, near) for device, near in self.nics.get(gpu, {}).items() if near in order]
        return min(known, key=lambda each: order.index(each[1]), default=None)


def topology(readings: Readings) -> Topology | None:
    """None: nvidia-smi was not there, or answered something else."""
    asked = readings.command("nvidia-smi", "topo", "-m")
    if asked is None or asked.rc != 0:
        return None
    text = _ESCAPE.sub("", asked.stdout)
    table, _, _ = text.partition("Legend:")
    lines = [line for line in table.splitlines() if line.strip()]
    if not lines or "GPU0" not in lines[0]:
        return None
    columns = [name.strip() for name in lines[0].split("\t")]
    names: dict[str, str] = dict(_LEGEND.findall(text))
    links: dict[str, dict[str, str]] = {}
    nics: dict[str, dict[str, str]] = {}
    for line in lines[1:]:
        row, *cells = (cell.strip() for cell in line.split("\t"))
        if not re.fullmatch(r"GPU\d+", row):
            continue
        links[row], nics[row] = {}, {}
        for column, cell in zip(columns[1:], cells, strict=False):
            if not column or column in _AFFINITY or cell in ("X", ""):
                continue
            to = links if re.fullmatch(r"GPU\d+", column) else nics
            to[row][names.get(column, column)] = cell
    return Topology(links, nics)
