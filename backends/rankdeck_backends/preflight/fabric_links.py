"""How good the links are: errors, flaps, the PCI bus behind the card, and the size of packets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import odd_ones, told
from rankdeck_backends.preflight.fabric_ports import NO_RDMA
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.recounted import Recounted
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.devices import ROOT, Device, Kind, Port
from rankdeck_profiles.readings import digits

COUNTERS = {
    "symbol_error": 0xFFFF,
    "link_error_recovery": 0xFF,
    "link_downed": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "local_link_integrity_errors": 0xF,
}
"""Counters of faults on the wire, and where each stops (InfiniBand architecture 16.1.3.5, PortCounters)."""

ERRORS = 10
"""From more than this on, ibqueryerrors reports a counter (infiniband-diags)."""

AGAIN = "and again 5 s later (not before a launch)"

FLAPS = 10
"""Changes of the carrier since the driver was loaded; a node that starts has two."""
FLAP_RATIO = 3
FLAPS_TO_COMPARE = 4

ROCE_HEADERS = ((4200, 4096), (2200, 2048), (1128, 1024), (616, 512), (360, 256))
"""A netdev's MTU and the RoCE packet that fits in (linux ib_addr.h, iboe_get_mtu: headers are 104 bytes)."""

_MTU = re.compile(r"active_mtu:\s*([0-9]{1,9})")
_PORT = re.compile(r"^\s+port:\s*([0-9]{1,9})", re.MULTILINE)


def errors(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.errors: counters of faults on the wire."""
    counted = [
        (port, name, count, top)
        for port in node.fabric.ports
        for name, top in COUNTERS.items()
        if (count := digits(port.counters.get(name))) is not None
    ]
    if not counted:
        return skipped("no error counters" if node.fabric.ports else NO_RDMA)
    many = [each for each in counted if each[2] > ERRORS]
    again = node.recounted
    now = _growing(again, [(port, name) for port, name, *_ in counted])
    if not many and not now:
        which = f"no counter of {len({port.name for port, *_ in counted})} ports is above {ERRORS}"
        return passed(which if again is None else f"{which}, and none grew {again.span}")
    told_of = []
    if again is not None and now:
        told_of.append(f"errors on the wire now: {_few(text for text, _ in now)} {again.span}")
    if many:
        listed = _few(
            f"{port.name} {name} {'at least ' if value >= top else ''}{value}"
            for port, name, value, top in many
        )
        told_of.append(f"errors on the wire since the counters were cleared: {listed}")
    return warned(
        "; ".join(told_of),
        *(evidence for _, evidence in now[:8]),
        *(Evidence.of(f"{port.path}/counters/{name}", value) for port, name, value, _ in many[:8]),
    )


def _growing(again: Recounted | None, counters: Iterable[tuple[Port, str]]) -> list[tuple[str, Evidence]]:
    """Those that grew between two looks, in words, each with what was read."""
    if again is None:
        return []
    grown = (
        (port, name, path, growth)
        for port, name in counters
        if (growth := again.grown.get(path := f"{port.path}/counters/{name}")) is not None
    )
    return [
        (
            f"{port.name} {name} grew by {growth.by}",
            Evidence.of(path, f"{growth.before}, then {growth.after}"),
        )
        for port, name, path, growth in grown
    ]


def _few(texts: Iterable[str]) -> str:
    """The first three, and how many more there are."""
    listed = list(texts)
    return "; ".join(listed[:3]) + (f"; and {len(listed) - 3} more" if len(listed) > 3 else "")


def flap(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.flap: how often the carrier came and went."""
    changes = _changes(node)
    if not changes:
        return skipped("no RDMA device with a network interface" if node.fabric.devices else NO_RDMA)
    many = {name: number for name, number in changes.items() if number > FLAPS}
    if len(pool) > 2 and max(changes.values()) > FLAPS_TO_COMPARE:
        limit = FLAP_RATIO * _usual(pool)
        many |= {name: number for name, number in changes.items() if number > max(limit, FLAPS_TO_COMPARE)}
    again = node.recounted
    if again is not None and (rising := [name for name in changes if _carrier(name) in again.grown]):
        grown = {name: again.grown[_carrier(name)] for name in rising}
        return warned(
            "the carrier comes and goes now: "
            + ", ".join(f"{name} changed {growth.by} times" for name, growth in grown.items())
            + f" {again.span}",
            *(
                Evidence.of(_carrier(name), f"{growth.before}, then {growth.after}")
                for name, growth in grown.items()
            ),
        )
    if not many:
        return passed(f"the carrier changed at most {max(changes.values())} times")
    listed = ", ".join(f"{name} {number} times" for name, number in many.items())
    return warned(
        f"the carrier came and went: {listed} (the pool's median is {_usual(pool):g})",
        *(Evidence.of(_carrier(name), number) for name, number in many.items()),
    )


def pcie(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.pcie: the card's bus has its full width and speed, and carries the port's rate."""
    told_by = [device for device in node.fabric.devices if _transfers(device.link_speed) and _lanes(device)]
    if not told_by:
        return skipped(
            "no card tells its PCI link (virtual functions do not)" if node.fabric.devices else NO_RDMA
        )
    narrow = [(device, text) for device in told_by if (text := _narrow(device))]
    if not narrow:
        links = sorted({f"{device.link_speed} x{device.link_width}" for device in told_by})
        return passed(f"PCI links at full speed and width: {', '.join(links)}")
    return warned(
        "; ".join(text for _, text in narrow[:3]),
        *(
            Evidence.of(f"{device.path}/device/{name}", value)
            for device, _ in narrow[:4]
            for name, value in (
                ("current_link_speed", device.link_speed),
                ("max_link_speed", device.max_link_speed),
                ("current_link_width", device.link_width),
                ("max_link_width", device.max_link_width),
            )
        ),
    )


def mtu(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """ib.mtu on one node: RoCE packets of a good size."""
    sizes = _mtus(node, pool)
    if not sizes:
        return skipped("no active port tells its MTU" if node.fabric.devices else NO_RDMA)
    small = [port for port, size in sizes if port.kind is Kind.ROCE and size[0] <= 1024]
    evidence = tuple(size[1] for _, size in sizes[:4])
    if small:
        return warned(
            f"{', '.join(port.name for port in small)}: RoCE packets of at most 1024 bytes", *evidence
        )
    return passed(f"MTU {', '.join(map(str, sorted({size[0] for _, size in sizes})))}", *evidence)


def mtu_uniform(pool: ProbedPool) -> Outcome:
    """ib.mtu in the pool: the same on every node."""
    sizes = {node.name: found for node in pool if (found := _mtus(node, pool))}
    if len(sizes) < 2:
        return skipped("fewer than two nodes tell their ports' MTU")
    values = {
        name: ", ".join(map(str, sorted({size[0] for _, size in each}))) for name, each in sizes.items()
    }
    evidence = tuple(each[0][1][1].on(name) for name, each in list(sizes.items())[:6])
    if len(set(values.values())) > 1:
        return failed(f"the ports' MTU differs: {told(values)}", *evidence, nodes=odd_ones(values))
    return passed(f"MTU {next(iter(values.values()))} on every node", *evidence[:2])


def _carrier(interface: str) -> str:
    return f"/sys/class/net/{interface}/carrier_changes"


def _usual(pool: ProbedPool) -> float:
    return median(number for node in pool for number in _changes(node).values())


def _changes(node: ProbedNode) -> dict[str, int]:
    """Carrier changes of the RDMA devices' own interfaces."""
    own = {name for device in node.fabric.devices for name in device.netdevs}
    own |= {gid.netdev for port in node.fabric.ports for gid in port.gids if gid.netdev}
    found = {}
    for name in sorted(own):
        changes = digits(node.readings.file(_carrier(name)))
        if changes is not None:
            found[name] = changes
    return found


def _transfers(speed: str | None) -> float | None:
    """`16.0 GT/s PCIe`, or `8 GT/s` of older kernels, as a number."""
    found = re.match(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GT/s", speed or "")
    return float(found[1]) if found else None


def _lanes(device: Device) -> int:
    return digits(device.link_width) or 0


def _narrow(device: Device) -> str:
    """What is wrong with a card's PCI link; nothing where it is right."""
    speed, lanes = _transfers(device.link_speed) or 0.0, _lanes(device)
    best_speed, wide = _transfers(device.max_link_speed), digits(device.max_link_width) or lanes
    if lanes < wide or speed < (best_speed or speed):
        return f"{device.name} has {speed:g} GT/s x{lanes} of {best_speed or speed:g} GT/s x{wide}"
    # 8 bits in 10 up to 5 GT/s, 128 in 130 from 8 GT/s on (PCI Express base specification).
    bus = speed * lanes * (0.8 if speed <= 5 else 128 / 130)
    wanted = sum(port.gbits for port in device.ports if port.active)
    if bus < wanted:
        return f"{device.name}: its PCI link carries {bus:.0f} Gbit/s, its ports {wanted:g}"
    return ""


def _mtus(node: ProbedNode, pool: ProbedPool) -> list[tuple[Port, tuple[int, Evidence]]]:
    """The data ports that tell their MTU."""
    ports: Iterable[Port] = pool.choice.ports.get(node.name) or node.fabric.usable
    found = ((port, _port_mtu(node, port)) for port in ports if port.kind is not Kind.EFA)
    return [(port, size) for port, size in found if size is not None]


def _port_mtu(node: ProbedNode, port: Port) -> tuple[int, Evidence] | None:
    listed = node.readings.command("ibv_devinfo")
    for block in re.split(r"^hca_id:\s*", listed.stdout if listed else "", flags=re.MULTILINE):
        if block.split(None, 1)[:1] != [port.device]:
            continue
        places = list(_PORT.finditer(block))
        for place, after in zip(places, [*places[1:], None], strict=False):
            size = _MTU.search(block, place.end(), after.start() if after else len(block))
            if int(place[1]) == port.number and size:
                return int(size[1]), Evidence.of("ibv_devinfo", f"{port.name} active_mtu: {size[1]}")
    if port.kind is not Kind.ROCE:
        return None
    netdev = (
        port.roce_gid.netdev if port.roce_gid else next(iter(node.fabric.by_name[port.device].netdevs), None)
    )
    mtu = digits(node.readings.file(f"/sys/class/net/{netdev}/mtu"))
    if mtu is None:
        return None
    fits = next((size for needed, size in ROCE_HEADERS if mtu >= needed), 256)
    return fits, Evidence.of(f"/sys/class/net/{netdev}/mtu", mtu)


CHECKS = (
    Check(
        id="ib.errors",
        group=Group.FABRIC,
        title="no errors on the wire",
        reads=f"{ROOT}/*/ports/*/counters/{{{','.join(COUNTERS)}}}, {AGAIN}",
        rule=f"warn: one of them is above {ERRORS}, or grew between two looks; one that has reached its "
        "end means `at least`",
        symptom="`Got completion with error 12` (IBV_WC_RETRY_EXC_ERR) under load, sometimes after days",
        fix="change the cable or transceiver; clear the counters with perfquery -R (as root) and look again",
        source="infiniband-diags ibqueryerrors; nccl issues 1664, 1814",
        node=errors,
    ),
    Check(
        id="ib.flap",
        group=Group.FABRIC,
        title="links do not flap",
        reads=f"/sys/class/net/*/carrier_changes of the RDMA devices' interfaces, {AGAIN}",
        rule=f"warn: more than {FLAPS}, more than {FLAP_RATIO} times the pool's median, or more at a second "
        "look",
        symptom="`Got completion with error 12` or 5, now and then",
        fix="look at the cable and the switch's log",
        source="linux Documentation/ABI/testing/sysfs-class-net; Azure/azurehpc-health-checks",
        node=flap,
    ),
    Check(
        id="ib.pcie",
        group=Group.FABRIC,
        title="the cards' PCI links",
        reads=f"{ROOT}/*/device/{{current,max}}_link_{{speed,width}}",
        rule="warn: below the card's own maximum, or less than its ports' rate; skip: virtual functions",
        symptom="half the bandwidth; kernel log: `... Gb/s available PCIe bandwidth, limited by ...`",
        fix="reseat the card; look at the slot and the BIOS's bifurcation",
        source="linux Documentation/ABI/testing/sysfs-bus-pci; imbue-ai/cluster-health",
        node=pcie,
    ),
    Check(
        id="ib.mtu",
        group=Group.FABRIC,
        title="one MTU",
        reads="ibv_devinfo (active_mtu), else the mtu of the RoCE port's interface",
        rule="fail: it differs between nodes; warn: RoCE at 1024 or less",
        symptom="a hang, or `vendor err 129`, at the first large message",
        fix="set the same MTU on all nodes' interfaces (9000 with RoCE) and on the switches",
        source="nccl issues 709, 1524, pull request 2135",
        node=mtu,
        pool=mtu_uniform,
    ),
)
