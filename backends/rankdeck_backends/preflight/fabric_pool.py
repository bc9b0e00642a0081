"""RDMA compared over the pool: as many ports everywhere, one subnet, one partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, names, odd_ones, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.choice import FULL_MEMBER, KEY_BITS, Choice
from rankdeck_profiles.fabric.devices import ROOT, Kind, Port
from rankdeck_profiles.fabric.inherited import inherited
from rankdeck_profiles.readings import digits

_UNUSABLE = (
    "ofed.halves",
    "ofed.modules",
    "ib.present",
    "ib.guid",
    "ib.subnet-manager",
    "ib.port-state",
    "ofed.uverbs",
    "ib.rate",
    "roce.gid",
)
"""Why a node has fewer usable ports than others."""


def uniform(pool: ProbedPool) -> Outcome:
    """ib.pool-uniform: every node has the same ports for data."""
    if not any(node.fabric.has_rdma_hardware for node in pool):
        return skipped("no RDMA hardware in this pool")
    choice = pool.choice
    ports = {node.name: _for_data(node, choice) for node in pool}
    if not any(ports.values()):
        return skipped("no node has a usable RDMA port")
    signatures = {name: _signature(each) for name, each in ports.items()}
    if len(set(signatures.values())) == 1:
        return passed(f"every node has {next(iter(signatures.values()))}")
    fewer = _fewer(ports, signatures)
    return failed(
        f"the nodes' usable RDMA ports differ: {told(signatures)}{_lacking(ports)}",
        *(
            Evidence.of(ROOT, ", ".join(port.name for port in ports[name]) or "no usable port").on(name)
            for name in _shown(signatures)
        ),
        nodes=fewer,
    )


def subnet(pool: ProbedPool) -> Outcome:
    """ib.subnet: the InfiniBand ports of all nodes are in one subnet."""
    prefixes = {
        node.name: sorted({port.gids[0].prefix for port in _infiniband(node) if port.gids}) for node in pool
    }
    known = {name: each for name, each in prefixes.items() if each}
    if len(known) < 2:
        return skipped("fewer than two nodes have an active InfiniBand port")
    evidence = tuple(
        Evidence.of(f"{port.path}/gids/0", port.gids[0].value).on(node.name)
        for node in list(pool)[:2]
        for port in _infiniband(node)[:4]
        if port.gids
    )
    common = set.intersection(*(set(each) for each in known.values()))
    listed = {name: ", ".join(each) for name, each in known.items()}
    if not common:
        return failed(
            f"the InfiniBand ports are in different subnets: {told(listed)}",
            *evidence,
            nodes=odd_ones(listed),
        )
    if any(len(each) > 1 for each in known.values()):
        return warned(
            f"the rails are in several subnets ({', '.join(sorted(set().union(*known.values())))}): a card "
            "reaches only its like on other nodes",
            *evidence,
            nodes=tuple(name for name, each in known.items() if len(each) > 1),
        )
    return passed(f"all InfiniBand ports are in subnet {next(iter(common))}")


def pkey(pool: ProbedPool) -> Outcome:
    """ib.pkey: the partition key in use is the same, and at most one node is a limited member."""
    used: dict[str, int] = {}
    evidence = []
    for node in pool:
        index = _pkey_index(node, pool)
        keys = {port.pkeys.get(index, 0) for port in _infiniband(node) if port.pkeys}
        if not keys:
            continue
        port = next(port for port in _infiniband(node) if port.pkeys)
        used[node.name] = min(keys)
        evidence.append(Evidence.of(f"{port.path}/pkeys/{index}", f"0x{used[node.name]:04x}").on(node.name))
    if len(used) < 2:
        return skipped("fewer than two nodes have an active InfiniBand port with a partition key")
    shown = {name: f"0x{key:04x}" for name, key in used.items()}
    bare = {name: key & KEY_BITS for name, key in used.items()}
    if len(set(bare.values())) > 1:
        return failed(
            f"the nodes are in different partitions: {told(shown)}", *evidence[:8], nodes=odd_ones(bare)
        )
    limited = [name for name, key in used.items() if not key & FULL_MEMBER]
    if len(limited) > 1:
        return failed(
            f"{names(limited)} are limited members of partition 0x{min(bare.values()):04x}: two such cannot "
            "talk to each other",
            *evidence[:8],
            nodes=limited,
        )
    return passed(f"all nodes have the partition key {told(shown).partition(' on ')[0]}", *evidence[:2])


def _for_data(node: ProbedNode, choice: Choice) -> tuple[Port, ...]:
    """The node's ports of the kind that carries the data, those left out for their number included."""
    if choice.kind is None:
        return node.fabric.usable
    kept = choice.ports[node.name]
    rates = {port.gbits for each in choice.ports.values() for port in each}
    return tuple(
        port
        for port in node.fabric.usable
        if port in kept or (choice.reduced and port.kind is choice.kind and port.gbits in rates)
    )


def _signature(ports: tuple[Port, ...]) -> str:
    counted = Counter((port.kind, port.gbits) for port in ports)
    if not counted:
        return "no usable port"
    return " and ".join(
        f"{count} {kind} {'port' if count == 1 else 'ports'} at {gbits:g} Gbit/s"
        for (kind, gbits), count in sorted(counted.items())
    )


def _fewer(ports: Mapping[str, tuple[Port, ...]], signatures: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that differ from most; of two halves the one that has less."""
    (_, most), *others = groups(signatures)
    if others and len(others[0][1]) == len(most):
        total = {name: sum(port.gbits for port in each) for name, each in ports.items()}
        best = max(total.values())
        return tuple(name for name in ports if total[name] < best) or odd_ones(signatures)
    return odd_ones(signatures)


def _lacking(ports: Mapping[str, tuple[Port, ...]]) -> str:
    """Which ports some nodes lack, where the names tell."""
    everywhere = frozenset.intersection(*(frozenset(port.name for port in each) for each in ports.values()))
    if not everywhere:
        return ""
    partly = sorted({port.name for each in ports.values() for port in each} - everywhere)
    return f"; not on all: {', '.join(partly[:8])}" if partly else ""


def _shown(signatures: Mapping[str, str]) -> list[str]:
    return [nodes[0] for _, nodes in groups(signatures)]


def _infiniband(node: ProbedNode) -> list[Port]:
    return [port for port in node.fabric.usable if port.kind is Kind.INFINIBAND]


def _pkey_index(node: ProbedNode, pool: ProbedPool) -> int:
    return digits(inherited(node.readings, pool.asked.env).value("NCCL_IB_PKEY")) or 0


CHECKS = (
    Check(
        id="ib.pool-uniform",
        group=Group.FABRIC,
        title="the same ports on every node",
        reads=f"{ROOT}/*/ports/*/{{state,rate,link_layer}}, and which devices may be opened",
        rule="fail: number, kind or rate of the ports for data differ between nodes",
        symptom=(
            "`socketFinalizeAccept: wrong type 4 != 3` where one node has no RDMA; `Detected mixed local Net "
            "device counts across ranks`; a crash at init"
        ),
        fix="repair or leave out the node; launched all the same, only what all nodes have is used",
        source="nccl issues 234, 1363; NCCL src/init.cc (2.30)",
        pool=uniform,
        explained_by=_UNUSABLE,
    ),
    Check(
        id="ib.subnet",
        group=Group.FABRIC,
        title="one InfiniBand subnet",
        reads=f"{ROOT}/*/ports/*/gids/0 (its first four groups)",
        rule="fail: no subnet in common; warn: rails in different subnets, so their order must be the same",
        symptom="timeouts, `Got completion with error 12 ... vendor err 129`",
        fix="look at the cabling and the subnet manager's settings",
        source="NCCL src/transport/net_ib; nccl issue 2013",
        pool=subnet,
    ),
    Check(
        id="ib.pkey",
        group=Group.FABRIC,
        title="one partition",
        reads=f"{ROOT}/*/ports/*/pkeys/0, or at the index in NCCL_IB_PKEY",
        rule=("fail: the lower 15 bits differ, or more than one node is a limited member (bit 15 not set)"),
        symptom="ports are ACTIVE, and after a minute `Got completion with error 12 ... vendor err 129`",
        fix="take nodes of one scale set or placement group; NCCL_IB_PKEY takes the index of a common key",
        source="nccl-tests issue 36; nccl issue 1323; MicrosoftDocs/azure-docs issue 69185",
        pool=pkey,
        handled_by=("NCCL_IB_PKEY",),
    ),
)
