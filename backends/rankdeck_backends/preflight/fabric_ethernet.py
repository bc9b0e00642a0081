"""RDMA over Ethernet, and Amazon's adapter: addresses and what they need to be used."""

from __future__ import annotations

import json
import re

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import odd_ones, side_by_side, told
from rankdeck_backends.preflight.entries import entries
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.devices import ROOT, Gid, Kind, Port
from rankdeck_profiles.fabric.inherited import inherited
from rankdeck_profiles.fabric.interfaces import Network
from rankdeck_profiles.fabric.rdma_rules import rails_apart
from rankdeck_profiles.readings import digits

_NO_ROCE = "no active RoCE port"
_FIXED = "NCCL_IB_GID_INDEX"
_ROUTES = ("ip", "-json", "route", "show", "table", "all")
"""All tables: nodes with several rails choose among them by the source address."""


def gid(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """roce.gid: there is an address that RoCE v2 can use on other nodes."""
    ports = _roce(node)
    if not ports:
        return skipped(_NO_ROCE)
    found = [(port, port.roce_gid) for port in ports]
    good = [(port, each) for port, each in found if each is not None and _is_up(node, each)]
    evidence = tuple(
        Evidence.of(f"{port.path}/gids/{each.index}", f"{each.value} ({each.type}, {each.netdev})")
        for port, each in good[:4]
        if each
    )
    if len(good) == len(found):
        listed = ", ".join(f"{port.name} index {each.index} ({each.ipv4})" for port, each in good[:4] if each)
        return passed(f"RoCE v2 IPv4 addresses: {listed}", *evidence)
    lacking = [port for port in ports if all(port is not other for other, _ in good)]
    shown = tuple(
        Evidence.of(f"{port.path}/gids/{each.index}", f"{each.value} ({each.type or 'no type'})")
        for port in lacking[:2]
        for each in port.gids[:4]
    ) or (Evidence.of(f"{lacking[0].path}/gids", None),)
    names = ", ".join(port.name for port in lacking)
    if good:
        return warned(f"{names}: no RoCE v2 address over IPv4; other ports have one", *shown)
    if any(port.kind is Kind.INFINIBAND for port in node.fabric.usable):
        return skipped(
            f"{names}: no RoCE v2 address over IPv4, and none needed: InfiniBand has the data", *shown
        )
    if node.fabric.azure:
        return skipped(
            f"{names}: Azure's accelerated networking, which carries no RDMA between machines", *shown
        )
    return failed(f"{names}: no RoCE v2 address over IPv4 on an interface that is up", *shown)


def gid_uniform(pool: ProbedPool) -> Outcome:
    """roce.gid-uniform: at the same index on every node, and where a variable says."""
    indices = {
        node.name: sorted({each.index for port in _roce(node) if (each := port.roce_gid) is not None})
        for node in pool
    }
    known = {name: each for name, each in indices.items() if each}
    if len(known) < 2:
        return skipped("fewer than two nodes have a RoCE v2 address")
    evidence = tuple(
        Evidence.of(f"{port.path}/gids/{each.index}", f"{each.value} ({each.type}, {each.netdev})").on(
            node.name
        )
        for node in list(pool)[:6]
        for port in _roce(node)[:1]
        if (each := port.roce_gid) is not None
    )
    wrong = {node.name: value for node in pool if (value := _wrongly_fixed(node, pool)) is not None}
    if wrong:
        name, value = next(iter(wrong.items()))
        return failed(
            f"{_FIXED}={value} is no RoCE v2 IPv4 address on {', '.join(wrong)}; there it is at index "
            f"{', '.join(map(str, known.get(name, [])))}",
            *evidence,
            nodes=tuple(wrong),
        )
    listed = {name: ", ".join(map(str, each)) for name, each in known.items()}
    if len(set(listed.values())) > 1:
        return warned(
            f"the RoCE v2 address is at GID index {told(listed)}", *evidence, nodes=odd_ones(listed)
        )
    return passed(
        f"the RoCE v2 address is at GID index {next(iter(listed.values()))} on every node", *evidence[:2]
    )


def subnet(pool: ProbedPool) -> Outcome:
    """roce.subnet: the ports of one rail are in one network, or have a route to each other."""
    rails: dict[str, dict[str, tuple[Gid, Network | None]]] = {}
    for node in pool:
        for port in _roce(node):
            if port.roce_gid is not None:
                rails.setdefault(port.name, {})[node.name] = (port.roce_gid, _network(node, port.roce_gid))
    shared = {rail: each for rail, each in rails.items() if len(each) > 1}
    if not shared:
        return skipped("no RoCE port with an IPv4 address on two nodes under one name")
    for rail, each in shared.items():
        networks = {name: str(network) for name, (_, network) in each.items()}
        evidence = tuple(
            Evidence.of(
                f"{ROOT}/{rail.replace(':', '/ports/')}/gids/{held.index}", f"{held.ipv4} in {network}"
            ).on(name)
            for name, (held, network) in list(each.items())[:4]
        )
        if len(set(networks.values())) == 1:
            continue
        routed = _routed(pool, each)
        if routed is None:
            return skipped(
                f"{rail} is in different networks ({told(networks)}), and the routes are not known", *evidence
            )
        if not routed:
            return failed(
                f"{rail} is in different networks ({told(networks)}) with no route between them",
                *evidence,
                nodes=odd_ones(networks),
            )
    apart = [node.name for node in pool if rails_apart(_roce(node))]
    if apart:
        return warned(
            "each rail is in a network of its own, so a card reaches only its like (NCCL_CROSS_NIC=0 is set)",
            *(
                Evidence.of(f"{port.path}/gids/{port.roce_gid.index}", port.roce_gid.ipv4).on(pool.head.name)
                for port in _roce(pool.head)
                if port.roce_gid
            ),
            nodes=apart,
        )
    return passed(f"the RoCE ports of {len(shared)} rails reach each other")


def efa(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """efa.ready: Amazon's adapters, the provider and the plugin that NCCL needs for them."""
    ports = [port for port in node.fabric.ports if port.kind is Kind.EFA]
    if not ports:
        return skipped("no EFA device")
    down = [port for port in ports if not port.active]
    if down:
        return failed(
            f"{', '.join(port.name for port in down)} not ACTIVE",
            *(Evidence.of(f"{port.path}/state", port.state) for port in down),
        )
    plugins = _plugins(node)
    if plugins is not None and not plugins:
        return failed(
            f"{len(ports)} EFA devices, and no libnccl-net*.so that loads: NCCL would use sockets",
            Evidence.of("libnccl-net*.so", "not found"),
            fix="install aws-ofi-nccl (the EFA installer has it) and put it on LD_LIBRARY_PATH",
        )
    asked = next(node.readings.ran("fi_info"), None)
    if asked is not None and "provider: efa" not in asked.stdout:
        return failed(
            f"{len(ports)} EFA devices, and libfabric has no provider for them",
            Evidence.of(asked.line, asked.stderr or asked.stdout or "nothing"),
        )
    if asked is None and plugins is None:
        return skipped(f"{len(ports)} EFA devices; neither fi_info nor NCCL's plugin could be looked at")
    return passed(
        f"{len(ports)} EFA devices" + (f", plugin {plugins[0]}" if plugins else ""),
        *([Evidence.of(asked.line, asked.stdout)] if asked else []),
    )


def efa_count(pool: ProbedPool) -> Outcome:
    """efa.ready in the pool: as many on every node."""
    counts = {
        node.name: sum(port.kind is Kind.EFA and port.active for port in node.fabric.ports) for node in pool
    }
    if not any(counts.values()):
        return skipped("no EFA device")
    if len(set(counts.values())) > 1:
        return failed(
            f"the number of EFA devices differs: {told(counts)}",
            *side_by_side(ROOT, counts),
            nodes=odd_ones(counts),
        )
    return passed(f"{next(iter(counts.values()))} EFA devices on every node")


def _plugins(node: ProbedNode) -> list[str] | None:
    """The paths of NCCL's network plugins that load; None: not looked for."""
    if node.readings.syscall("net_plugins") is None:
        return None
    found = entries(node.readings, "net_plugins")
    return [str(each.get("path")) for each in found if each.get("state") == "ok"]


def _roce(node: ProbedNode) -> list[Port]:
    return [port for port in node.fabric.usable if port.kind is Kind.ROCE]


def _is_up(node: ProbedNode, found: Gid) -> bool:
    """Whether the address's interface is up; one that is not listed is taken to be."""
    on = next((each for each in node.fabric.interfaces if each.name == found.netdev), None)
    return on is None or on.up


def _wrongly_fixed(node: ProbedNode, pool: ProbedPool) -> str | None:
    """The GID index that a variable fixes, where it is no address to use on this node."""
    value = inherited(node.readings, pool.asked.env).value(_FIXED) or ""
    ports = _roce(node)
    index = digits(value)
    if index is None or not ports:
        return None
    at = [next((each for each in port.gids if each.index == index), None) for port in ports]
    right = all(each is not None and each.type == "RoCE v2" and each.ipv4 is not None for each in at)
    return None if right else value


def _network(node: ProbedNode, found: Gid) -> Network | None:
    """The network of a GID's address, from the interface that holds it; a /24 where none does."""
    for each in node.fabric.interfaces:
        for held in each.addresses:
            if held.ip == found.ipv4:
                return held.network
    return None


def _routed(pool: ProbedPool, ends: dict[str, tuple[Gid, Network | None]]) -> bool | None:
    """Whether each end has a route out of its own interface to the others; None: not known."""
    known = []
    for node in pool:
        if node.name not in ends:
            continue
        own, _ = ends[node.name]
        for name, (other, _) in ends.items():
            if name != node.name:
                known.append(_has_route(node, own, other))
    if any(each is False for each in known):
        return False
    return None if None in known or not known else True


def _has_route(node: ProbedNode, own: Gid, other: Gid) -> bool | None:
    asked = node.readings.command("ip", "route", "get", str(other.ipv4))
    if asked is not None:
        return (
            asked.rc == 0 and re.search(rf"\bdev {re.escape(own.netdev or '')}\b", asked.stdout) is not None
        )
    listed = node.readings.command(*_ROUTES)
    if listed is None or listed.rc != 0:
        return None
    try:
        routes = json.loads(listed.stdout)
    except (ValueError, RecursionError):
        return None
    return isinstance(routes, list) and any(
        isinstance(route, dict) and route.get("dev") == own.netdev and _leads(str(route.get("dst")), other)
        for route in routes
    )


def _leads(destination: str, other: Gid) -> bool:
    import ipaddress

    if destination == "default":
        return True
    try:
        return other.ipv4 in ipaddress.ip_network(destination, strict=False)
    except ValueError:
        return False


CHECKS = (
    Check(
        id="roce.gid",
        group=Group.FABRIC,
        title="RoCE addresses",
        reads=f"{ROOT}/*/ports/*/gids, gid_attrs/types, gid_attrs/ndevs",
        rule=(
            "fail: no entry of type RoCE v2 with an IPv4 address on an interface that is up; warn: some "
            "ports have none; skip: InfiniBand has the data, or it is Azure's accelerated networking"
        ),
        symptom="`ibv_modify_qp ... Network is unreachable`, or a hang",
        fix="give the port's interface an IPv4 address; see cma_roce_mode",
        source="nccl issues 769, 1131; nccl-tests issue 185",
        node=gid,
    ),
    Check(
        id="roce.gid-uniform",
        group=Group.FABRIC,
        title="RoCE addresses at one index",
        reads=f"{ROOT}/*/ports/*/gids; {_FIXED}",
        rule=(
            f"warn: the index differs between nodes (each node gets its own); fail: {_FIXED} is fixed to an "
            "index that is no such address on a node"
        ),
        symptom="`Call to ibv_modify_qp failed with 22 Invalid argument, ... local GID index 3`; error 12",
        fix=f"unset {_FIXED}: NCCL chooses by itself since 2.21",
        source="nccl issues 426, 890, pull request 1427",
        pool=gid_uniform,
    ),
    Check(
        id="roce.subnet",
        group=Group.FABRIC,
        title="RoCE ports reach each other",
        reads=f"the IPv4 addresses of each rail's GIDs; ip -json addr; {' '.join(_ROUTES)}",
        rule=(
            "fail: one rail's ports are in different networks and have no route; warn: each rail is in a "
            "network of its own; skip: the routes are not known"
        ),
        symptom="`ibv_modify_qp ... Network is unreachable` or `Connection timed out`",
        fix="set the routes, or the addresses so that one rail is one network",
        source="nccl-tests issue 185; nccl issue 2013",
        pool=subnet,
        pair=True,
    ),
    Check(
        id="efa.ready",
        group=Group.FABRIC,
        title="EFA is ready",
        reads=f"{ROOT}/*/ports/1/state; fi_info -p efa -t FI_EP_RDM; libnccl-net*.so",
        rule="fail: EFA devices without libfabric's provider or NCCL's plugin, or not as many on every node",
        symptom="quietly sockets; `NET/OFI No eligible providers were found`",
        fix="run the EFA installer; the security group must allow all traffic to itself",
        source="aws/aws-ofi-nccl; nccl issue 1597",
        node=efa,
        pool=efa_count,
    ),
)
