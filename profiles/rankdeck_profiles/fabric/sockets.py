"""Where the nodes meet: the network by which they reach each other, and what NCCL would choose by itself.

NCCL's choice is that of src/misc/socket.cc (ncclFindInterfaces) and src/os/linux.cc, 2.30.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdeck_profiles.fabric.interfaces import HostInterface, Interface, Network
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.versions import Version

LIBVIRT_LAST_SINCE = (2, 28)
"""The NCCL that began to take `virbr*` only where nothing else is."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node is met."""

    interface: Interface
    address: HostInterface

    @property
    def network(self) -> Network:
        """The network its address is in."""
        return self.address.network


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where all nodes of a pool are met."""

    places: Mapping[str, Place]
    """By node; one that has no address that others could use is missing."""
    network: Network | None
    """The network that all of them are in; None: there is none."""
    why: str
    """Why this one; or what is wrong."""

    @property
    def common(self) -> bool:
        """Whether all are met in one network."""
        return self.network is not None


def nccl_candidates(interfaces: Sequence[Interface], nccl: Version | None = None) -> tuple[Interface, ...]:
    """The interfaces that NCCL uses if nobody names one: the first group of names that has any.

    An IPoIB interface with nothing but a link-local address counts, and comes before all Ethernet.

    Args:
        interfaces: of one node.
        nccl: its version; None: a recent one.
    """
    libvirt_last = nccl is None or nccl >= LIBVIRT_LAST_SINCE
    there = [each for each in interfaces if each.running and each.addresses]
    last = ("docker", "lo", "virbr") if libvirt_last else ("docker", "lo")
    groups = (
        [each for each in there if each.name.startswith("ib")],
        [each for each in there if not each.name.startswith(last)],
        [each for each in there if each.name.startswith("docker")],
        [each for each in there if each.name.startswith("lo")],
        [each for each in there if each.name.startswith("virbr")],
    )
    return tuple(next((group for group in groups if group), []))


def resolves_into(node: NodeFabric, network: Network | None) -> bool | None:
    """Whether the node's own name leads to an address of its that is in the network; None: not asked.

    Gloo listens there unless an interface is named for it.
    """
    answers = node.readings.texts("resolve_self")
    if answers is None:
        return None
    own = {address.ip: address.network for each in node.interfaces for address in each.addresses}
    for text in answers:
        try:
            ip = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            continue
        if not ip.is_loopback and ip in own and (network is None or ip in network):
            return True
    return False


def meet(
    nodes: Mapping[str, NodeFabric],
    *,
    addresses: Mapping[str, str] | None = None,
    interface: str | None = None,
    rdma: bool = False,
) -> Meeting:
    """Find the network in which the nodes reach each other.

    Args:
        nodes: in the pool's order.
        addresses: the address each node is known to be reached at, as far as that is settled.
        interface: the one that the user names; it is taken whatever else there is.
        rdma: the data goes over RDMA, so that any network will do for the little that is left; without it
            the fastest that all have is taken.
    """
    if interface is not None:
        return _on(nodes, interface)
    known = _all_known(nodes, addresses or {})
    offers = {name: _offers(node) for name, node in nodes.items()}
    shared = _shared(offers)
    settled = _same_network(nodes, known)
    if not rdma and (faster := _fastest(shared, offers, settled)) is not None:
        speed = _speed(faster, offers)
        return Meeting(
            _places(faster, offers), faster, f"the fastest network that all nodes are in ({speed} Mbit/s)"
        )
    if settled is not None:
        return Meeting(known, settled, "the network of the addresses that the nodes are known by")
    if shared:
        best = _preferred(shared, offers, ethernet=rdma)
        return Meeting(_places(best, offers), best, "a network that all nodes are in")
    places = {name: place for name in nodes if (place := known.get(name) or _first(offers[name]))}
    found = ", ".join(f"{name} {place.address}" for name, place in places.items())
    without = [name for name in nodes if name not in places]
    if without:
        found += f"; {', '.join(without)} has no address that others can use"
    return Meeting(places, None, f"the nodes have no network in common: {found}")


def _on(nodes: Mapping[str, NodeFabric], interface: str) -> Meeting:
    places = {}
    for name, node in nodes.items():
        on = next((each for each in node.interfaces if each.name == interface), None)
        if on is not None and on.addresses:
            places[name] = Place(on, next(iter(on.global_addresses or on.addresses)))
    missing = [name for name in nodes if name not in places]
    if missing:
        why = (
            f"the interface {interface} that was asked for is not on {', '.join(missing)}, or has no address"
        )
        return Meeting(places, None, why)
    network = _same_network(nodes, places)
    if network is None:
        found = ", ".join(f"{name} {place.address}" for name, place in places.items())
        return Meeting(places, None, f"the addresses on {interface} are not in one network: {found}")
    return Meeting(places, network, f"the interface {interface} that was asked for")


def _all_known(nodes: Mapping[str, NodeFabric], addresses: Mapping[str, str]) -> dict[str, Place]:
    found = ((name, _known(node, addresses.get(name))) for name, node in nodes.items())
    return {name: place for name, place in found if place is not None}


def _known(node: NodeFabric, address: str | None) -> Place | None:
    """The address a node is known by: the one that is settled, else the one that its own name leads to."""
    wanted = [address] if address else list(node.readings.texts("resolve_self") or ())
    usable = [each for each in node.interfaces if each.running and not each.loopback]
    for text in wanted:
        for each in usable:
            for held in each.global_addresses:
                if str(held.ip) == text:
                    return Place(each, held)
    return None


def _offers(node: NodeFabric) -> tuple[Place, ...]:
    """All places at which other nodes might reach it: no bridge to its own containers."""
    return tuple(
        Place(each, address)
        for each in node.interfaces
        if each.running and not each.loopback and not each.virtual
        for address in each.global_addresses
    )


def _shared(offers: Mapping[str, Sequence[Place]]) -> tuple[Network, ...]:
    """The networks that every node has, in the head node's order."""
    if not offers:
        return ()
    sets = [{place.network for place in each} for each in offers.values()]
    first = next(iter(offers.values()))
    ordered = dict.fromkeys(place.network for place in first)
    return tuple(network for network in ordered if all(network in each for each in sets))


def _same_network(nodes: Mapping[str, NodeFabric], places: Mapping[str, Place]) -> Network | None:
    if not nodes or any(name not in places for name in nodes):
        return None
    networks = {place.network for place in places.values()}
    return next(iter(networks)) if len(networks) == 1 else None


def _fastest(
    shared: Sequence[Network], offers: Mapping[str, Sequence[Place]], settled: Network | None
) -> Network | None:
    """A shared network that is faster than all others, the settled one too; None: not known, or no faster."""
    speeds = {network: _speed(network, offers) for network in shared}
    if settled is None or settled not in speeds or not all(speeds.values()):
        return None
    best = max(speeds, key=lambda network: speeds[network] or 0)
    return best if (speeds[best] or 0) > (speeds[settled] or 0) else None


def _speed(network: Network, offers: Mapping[str, Sequence[Place]]) -> int | None:
    """What the slowest node has there, in Mbit/s; None: some node does not say."""
    speeds = [
        next((place.interface.speed_mbit for place in each if place.network == network), None)
        for each in offers.values()
    ]
    known = [speed for speed in speeds if speed]
    return min(known) if len(known) == len(speeds) and known else None


def _preferred(
    shared: Sequence[Network], offers: Mapping[str, Sequence[Place]], *, ethernet: bool
) -> Network:
    """Of several networks: Ethernet where RDMA has the data, then the faster, then the head's first."""

    def order(network: Network) -> tuple[bool, int]:
        first = next(place for each in offers.values() for place in each if place.network == network)
        return (ethernet and first.interface.link_type == "infiniband", -(_speed(network, offers) or 0))

    return min(shared, key=order)


def _places(network: Network, offers: Mapping[str, Sequence[Place]]) -> dict[str, Place]:
    return {name: next(place for place in each if place.network == network) for name, each in offers.items()}


def _first(offers: Sequence[Place]) -> Place | None:
    return next(iter(offers), None)
