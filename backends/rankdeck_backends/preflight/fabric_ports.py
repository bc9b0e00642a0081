"""RDMA devices and their ports: there, active, of one kind, at full rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import side_by_side
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.devices import ROOT, Kind, Port

NO_RDMA = "no RDMA hardware on this node"

_ORDER = (Kind.INFINIBAND, Kind.ROCE, Kind.EFA, Kind.IWARP, Kind.OTHER)


def present(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.present: the cards on the PCI bus have RDMA devices."""
    fabric = node.fabric
    cards = [function for function in fabric.pci if function.is_rdma]
    infiniband = [function for function in cards if function.is_infiniband]
    if fabric.devices:
        names = ", ".join(device.name for device in fabric.devices)
        return passed(f"{_count(len(fabric.devices), 'RDMA device')}: {names}", Evidence.of(ROOT, names))
    if infiniband:
        listed = ", ".join(function.bdf for function in infiniband)
        return failed(
            f"{_count(len(infiniband), 'InfiniBand card')} on the PCI bus ({listed}), and no RDMA device",
            *(_pci(function.bdf, function.kind, function.vendor) for function in infiniband[:4]),
            Evidence.of(ROOT, None),
        )
    if cards:
        return skipped(
            f"{_count(len(cards), 'network card')} able to do RDMA, and no RDMA device: plain Ethernet",
            *(_pci(function.bdf, function.kind, function.vendor) for function in cards[:4]),
        )
    return skipped(NO_RDMA)


def port_state(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.port-state: every port that should carry data is ACTIVE."""
    fabric = node.fabric
    if not fabric.ports:
        return skipped(NO_RDMA)
    down = [port for port in fabric.ports if port.kind is Kind.INFINIBAND and not port.active]
    wanted = [port for port in down if _should_be_active(port, node, pool)]
    active = [port for port in fabric.ports if port.active]
    serious = [port for port in fabric.ports if port.kind in (Kind.INFINIBAND, Kind.EFA)]
    if not wanted and not active and serious:
        wanted = serious
    if wanted:
        more = "" if active else "; no port is ACTIVE"
        return failed(
            _listed(_state(port) for port in wanted) + more,
            *(evidence for port in wanted[:4] for evidence in _state_evidence(port)),
            fix=_port_fix(wanted[0]),
        )
    unused = [port for port in fabric.ports if not port.active]
    note = f"; not in use: {', '.join(port.name for port in unused)}" if unused else ""
    return passed(
        f"{len(active)} of {_count(len(fabric.ports), 'port')} ACTIVE{note}",
        *(Evidence.of(f"{port.path}/state", f"{port.state}") for port in unused[:4]),
    )


def subnet_manager(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.subnet-manager: ports with a link have been taken in by a subnet manager."""
    ports = [port for port in node.fabric.ports if port.kind is Kind.INFINIBAND and port.linked]
    if not ports:
        return skipped("no InfiniBand port with a link")
    waiting = [port for port in ports if port.state in ("INIT", "ARMED") and not port.sm_lid]
    if not waiting:
        return passed(f"a subnet manager reached {_count(len(ports), 'InfiniBand port')}")
    return failed(
        f"no subnet manager reached {', '.join(port.name for port in waiting)}: the link is up, the state is "
        f"{waiting[0].state}",
        *(evidence for port in waiting[:4] for evidence in _state_evidence(port)),
        *(Evidence.of(f"{port.path}/sm_lid", f"0x{port.sm_lid or 0:x}") for port in waiting[:4]),
    )


def link_layer(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.link-layer: one kind of port only."""
    fabric = node.fabric
    if not fabric.ports:
        return skipped(NO_RDMA)
    active = [port for port in fabric.ports if port.active]
    kinds = _kinds(active or fabric.ports)
    if len(kinds) < 2:
        return passed(f"all ports are {kinds[0]}")
    found = "; ".join(
        f"{kind}: {', '.join(port.name for port in active if port.kind is kind)}" for kind in kinds
    )
    return warned(
        f"ACTIVE ports of more than one kind ({found}); NCCL would take all of them",
        *(Evidence.of(f"{port.path}/link_layer", port.link_layer) for port in active),
    )


def common_kind(pool: ProbedPool) -> Outcome:
    """ib.link-layer in the pool: there is a kind that every node has."""
    kinds = {node.name: _kinds(node.fabric.usable) for node in pool if node.fabric.usable}
    if not kinds:
        return skipped("no node has a usable RDMA port")
    common = set.intersection(*(set(each) for each in kinds.values()))
    if common:
        return passed(f"every node with RDMA has {' and '.join(kind for kind in _ORDER if kind in common)}")
    found = "; ".join(f"{name}: {', '.join(each)}" for name, each in kinds.items())
    listed = {name: ", ".join(each) for name, each in kinds.items()}
    return failed(
        f"no kind of RDMA port is on every node: {found}",
        *side_by_side(f"{ROOT}/*/ports/*/link_layer", listed),
        nodes=tuple(kinds),
    )


def rate(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.rate: a port is as fast as the others of its model."""
    ports = _rated(node)
    if not node.fabric.ports:
        return skipped(NO_RDMA)
    if not ports:
        return skipped("no port with a link and a GUID")
    best: dict[tuple[str | None, Kind], float] = {}
    elsewhere: dict[tuple[str | None, Kind, str], float] = {}
    for other in pool:
        for each in _rated(other):
            model = _model(other, each)
            best[model] = max(best.get(model, 0.0), each.gbits)
            if other is not node:
                place = (*model, each.name)
                elsewhere[place] = max(elsewhere.get(place, 0.0), each.gbits)
    slow = []
    for port in ports:
        model = _model(node, port)
        # As fast as this port is on any other node: then it is so by design.
        alike = elsewhere.get((*model, port.name), best[model]) <= port.gbits
        if port.gbits < best[model] and not alike:
            slow.append((port, best[model]))
    if not slow:
        rates = ", ".join(sorted({port.rate.raw for port in ports if port.rate}))
        return passed(f"all ports with a link at the rate of their model: {rates}")
    return failed(
        _listed(
            f"{port.name} runs at {port.gbits:g} Gbit/s, others of its model at {best:g}"
            for port, best in slow
        ),
        *(Evidence.of(f"{port.path}/rate", port.rate.raw if port.rate else None) for port, _ in slow[:4]),
    )


def _should_be_active(port: Port, node: ProbedNode, pool: ProbedPool) -> bool:
    """Whether an InfiniBand port that is not ACTIVE is one that should be.

    In a pool: ACTIVE on most of the other nodes. On one node alone: no other port of that card is in use.
    """
    others = [
        each.active for other in pool.others(node) for each in other.fabric.ports if each.name == port.name
    ]
    if others:
        return sum(others) * 2 >= len(others)
    siblings = node.fabric.by_name[port.device].ports
    return not any(each.active for each in siblings)


def _rated(node: ProbedNode) -> list[Port]:
    """The ports whose rate means something: with a link, of a device that has a GUID."""
    return [
        port
        for port in node.fabric.ports
        if port.linked and port.gbits and not node.fabric.by_name[port.device].null_guid
    ]


def _model(node: ProbedNode, port: Port) -> tuple[str | None, Kind]:
    return node.fabric.by_name[port.device].hca_type, port.kind


def _kinds(ports: Sequence[Port]) -> list[Kind]:
    found = {port.kind for port in ports}
    return [kind for kind in _ORDER if kind in found]


def _state(port: Port) -> str:
    return f"{port.name} is {port.state or 'in an unknown state'} ({port.phys or 'unknown'})"


def _state_evidence(port: Port) -> tuple[Evidence, ...]:
    return (
        Evidence.of(f"{port.path}/state", port.state),
        Evidence.of(f"{port.path}/phys_state", port.phys),
    )


def _port_fix(port: Port) -> str:
    if port.phys == "Disabled":
        return "the port was switched off: switch it on (ibportstate, or the card's settings)"
    if port.phys == "LinkUp":
        return "the link is up and no subnet manager took the port in: start opensm or the switch's"
    return "check the cable, the transceiver and the switch port"


def _pci(bdf: str, kind: str, vendor: str) -> Evidence:
    return Evidence.of(f"/sys/bus/pci/devices/{bdf}/class", f"{kind} of vendor {vendor}")


def _listed(parts: Iterable[str]) -> str:
    """A few in full, of many how many more."""
    found = list(parts)
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


CHECKS = (
    Check(
        id="ib.present",
        group=Group.FABRIC,
        title="RDMA devices are there",
        reads=f"names in {ROOT}; /sys/bus/pci/devices/*/{{class,vendor}}",
        rule=(
            "pass: there is an RDMA device; fail: an InfiniBand card (PCI class 0207) is on the bus and no "
            "device; skip: no RDMA card"
        ),
        symptom="`NET/IB : No device found.` (at INFO only), and the job runs over sockets",
        fix="load the driver (modprobe mlx5_ib); in a container, see that it is given the host's devices",
        source="NCCL src/transport/net_ib/init.cc; PCI class codes",
        node=present,
        explained_by=("ofed.halves", "ofed.modules"),
    ),
    Check(
        id="ib.port-state",
        group=Group.FABRIC,
        title="ports are ACTIVE",
        reads=f"{ROOT}/*/ports/*/{{state,phys_state}}",
        rule=(
            "fail: an InfiniBand port is not ACTIVE that is on most nodes, or none is; ports that are down "
            "on every node, and Ethernet ports without a cable, are not in use"
        ),
        symptom=(
            "NCCL passes over ports that are not ACTIVE without a word: half the bandwidth, or `Detected "
            "mixed local Net device counts across ranks`; UCX: `network device 'mlx5_0:1' is not available`"
        ),
        fix="check the cable, the transceiver and the switch port",
        source="NCCL src/transport/net_ib/init.cc; linux drivers/infiniband/core/sysfs.c",
        node=port_state,
        explained_by=("ib.guid", "ib.subnet-manager"),
    ),
    Check(
        id="ib.subnet-manager",
        group=Group.FABRIC,
        title="a subnet manager took the ports in",
        reads=f"{ROOT}/*/ports/*/{{state,phys_state,sm_lid}}",
        rule="fail: an InfiniBand port has a link (LinkUp), is INIT or ARMED, and its sm_lid is 0",
        symptom="all ports stay INIT after the installation; `no active port`",
        fix="start a subnet manager (opensm on one node, or the switch's)",
        source="ucx issue 5970; clustervision/trinity issue 157",
        node=subnet_manager,
        explained_by=("ib.guid",),
    ),
    Check(
        id="ib.link-layer",
        group=Group.FABRIC,
        title="one kind of port",
        reads=f"{ROOT}/*/ports/*/link_layer, node_type, device/vendor",
        rule=(
            "warn: ACTIVE ports of several kinds (NCCL_IB_HCA then names those for data); fail: no kind is "
            "on every node"
        ),
        symptom="`Attempted to connect incompatible devices`; with older NCCL it hangs",
        fix="nothing: NCCL_IB_HCA is set; or take the cables of the other ports out of use",
        source="NCCL src/transport/net_ib/connect.cc",
        node=link_layer,
        pool=common_kind,
    ),
    Check(
        id="ib.rate",
        group=Group.FABRIC,
        title="ports at full rate",
        reads=f"{ROOT}/*/ports/*/rate, hca_type",
        rule="fail: a port with a link is slower than others of its model on the node or in the pool",
        symptom="one slow rank holds up all others",
        fix="reseat the cable; look at the switch port's rate and width",
        source="linux drivers/infiniband/core/sysfs.c (rate_show); Azure/azurehpc-health-checks",
        node=rate,
    ),
)
