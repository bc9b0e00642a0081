"""Which RDMA ports carry the data: the same kind on every node, without those that serve other things.

NCCL takes every port that is ACTIVE (`NodeFabric.taken_by_nccl`). Ports of another kind or of a lesser rate
beside the fast ones are for management or storage: NCCL cannot connect two kinds, and spreads data evenly
over what it has (nccl issues 1591, 302).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankdeck_profiles.fabric.devices import Kind, Port
from rankdeck_profiles.fabric.natural import natural
from rankdeck_profiles.fabric.node import NodeFabric

FULL_MEMBER = 0x8000
"""Bit 15 of a partition key; two limited members cannot talk (InfiniBand architecture, 10.9)."""
KEY_BITS = 0x7FFF


@dataclass(frozen=True, slots=True)
class Choice:
    """The ports for a pool's data."""

    kind: Kind | None
    """What they speak; None: there is no kind that every node has."""
    ports: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    """By node."""
    left_out: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    """By node: those that NCCL would take and that are not chosen."""
    reduced: bool = False
    """Some node has fewer than others, and only the ones that all have were kept."""
    why_none: str = ""

    @property
    def narrowed(self) -> bool:
        """True: NCCL's own choice would be another one on some node."""
        return any(self.left_out.values())


def choose(nodes: Mapping[str, NodeFabric]) -> Choice:
    """The ports for data, from all nodes' devices."""
    taken = {name: node.taken_by_nccl for name, node in nodes.items()}
    for kind in (Kind.INFINIBAND, Kind.ROCE, Kind.EFA):
        ports = {name: _of_kind(node, kind) for name, node in nodes.items()}
        if nodes and all(ports.values()):
            if kind is Kind.INFINIBAND and common_keys(ports) is not None and not common_keys(ports):
                return Choice(
                    None, {}, taken, why_none="the InfiniBand ports have no partition key in common"
                )
            return _settled(kind, {name: _fastest(each) for name, each in ports.items()}, taken)
    missing = sorted((name for name, node in nodes.items() if not node.usable), key=natural)
    if not any(node.usable for node in nodes.values()):
        why = "no node has a usable RDMA port"
    elif missing:
        why = f"{_names(missing)} {'has' if len(missing) == 1 else 'have'} no usable RDMA port"
    else:
        why = "no kind of RDMA port is usable on every node"
    return Choice(None, {}, taken, why_none=why)


def common_keys(ports: Mapping[str, Sequence[Port]]) -> frozenset[int] | None:
    """The partition keys (without the member bit) that all nodes' first ports have; None: not known.

    A key counts where at most one node is a limited member of it.
    """
    tables = [set(each[0].pkeys.values()) for each in ports.values() if each]
    if not tables or not all(tables):
        return None
    shared = frozenset.intersection(*(frozenset(key & KEY_BITS for key in table) for table in tables))
    limited = Counter(key for table in tables for key in shared if key | FULL_MEMBER not in table)
    return frozenset(key for key in shared if limited[key] <= 1)


def _of_kind(node: NodeFabric, kind: Kind) -> tuple[Port, ...]:
    """The usable ports of a kind; of RoCE those with an address that NCCL can use."""
    return tuple(
        port
        for port in node.usable
        if port.kind is kind and (kind is not Kind.ROCE or port.roce_gid is not None)
    )


def _fastest(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Those of the rate that carries the most in sum: a card for management is one, and slower."""
    carried: dict[float, float] = {}
    for port in ports:
        carried[port.gbits] = carried.get(port.gbits, 0.0) + port.gbits
    best = max(carried, key=lambda rate: (carried[rate], rate))
    return tuple(port for port in ports if port.gbits == best)


def _settled(
    kind: Kind, ports: Mapping[str, tuple[Port, ...]], taken: Mapping[str, tuple[Port, ...]]
) -> Choice:
    reduced = False
    if len({len(each) for each in ports.values()}) > 1:
        common = frozenset.intersection(*(frozenset(port.name for port in each) for each in ports.values()))
        if common:
            ports = {
                name: tuple(port for port in each if port.name in common) for name, each in ports.items()
            }
            reduced = True
    kept = {name: {port.name for port in each} for name, each in ports.items()}
    left_out = {
        name: tuple(port for port in each if port.name not in kept[name]) for name, each in taken.items()
    }
    return Choice(kind, ports, left_out, reduced)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
