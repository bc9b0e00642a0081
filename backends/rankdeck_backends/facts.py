"""From a probe's answer to the facts that planning needs: above all, the address others reach a node at."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdeck_backends.base import NodeError, NodeRefusal, Problem, Step
from rankdeck_profiles.facts import GpuFacts, NodeFacts, mpi_from_json
from rankdeck_profiles.masking import shown
from rankdeck_profiles.model import BackendKind, Pool, PoolNode

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_INSIDE = ("docker", "br-", "veth", "virbr", "vnet", "podman", "cni", "flannel", "cali", "lxc", "lxdbr")
"""How the bridges and links of Docker, libvirt, Podman, Kubernetes' networks and LXC are named. They have the
same addresses on every node, where no other node reaches them."""


@dataclass(frozen=True, slots=True)
class _Interface:
    name: str
    loopback: bool
    up: bool
    addresses: tuple[_Address, ...]
    networks: tuple[str, ...] = ()
    """The network of each address; empty where the node does not tell."""

    @property
    def is_inside(self) -> bool:
        """Whether it leads nowhere but into this machine: to itself, its containers or virtual machines."""
        return self.loopback or self.name.startswith(_INSIDE)

    def network_of(self, address: str) -> str | None:
        """The network that one of its addresses is in."""
        by_address = dict(zip(map(str, self.addresses), self.networks, strict=False))
        return by_address.get(address) or None

    def reachable_address(self) -> _Address | None:
        """Its first address that other machines can use, IPv4 before IPv6."""
        usable = [a for a in self.addresses if not (a.is_loopback or a.is_link_local or a.is_unspecified)]
        return next((a for a in usable if a.version == 4), usable[0] if usable else None)


def from_probe(
    node: PoolNode, pool: Pool, answer: Mapping[str, Any], *, reached_at: str | None = None
) -> NodeFacts:
    """The facts of one node.

    Its address is never looked up by the node's own name: distributions put that to 127.0.1.1 in /etc/hosts.

    Args:
        node: the node as the pool names it.
        pool: its `interface`, if set, is where the address is taken from.
        answer: the reply to `probe`, or its `facts`.
        reached_at: the address that the login side connected to, for the case that the node does not know it.

    Raises:
        NodeRefusal: the pool's interface is not on this node, or has no address.
        NodeError: the answer is not one of a probe (step `agent`).
    """
    facts = answer.get("facts", answer)
    if not isinstance(facts, Mapping):
        raise NodeError(node.name, Step.AGENT, f"the probe's answer holds no facts: {str(answer)[:200]}")
    try:
        interfaces = [_interface(entry) for entry in facts["interfaces"]]
        interface, address = _address(
            node, pool, interfaces, [facts["ssh_server_address"], reached_at, node.host]
        )
        leftovers = {str(name): shown(name, str(value)) for name, value in facts["leftovers"].items()}
        return NodeFacts(
            node=node.name,
            hostname=str(facts["hostname"]),
            home=str(facts["home"]),
            address=address,
            interface=interface,
            cpus=int(facts["cpus"]),
            memory_mib=int(facts["memory_mib"] or 0),
            gpus=tuple(_gpu(entry) for entry in facts["gpus"]),
            machine=str(facts["boot"]),
            leftovers=leftovers,
            free_port=facts.get("free_port"),
            network=next((found for each in interfaces if (found := each.network_of(address))), None),
            uid=facts.get("uid"),
            mpi=mpi_from_json(facts.get("mpi")),
            software={str(name): str(version) for name, version in facts.get("software", {}).items()},
            raw={**facts, "leftovers": leftovers},  # recorded with the run: without secrets
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NodeError(
            node.name, Step.AGENT, f"the probe's answer is not as expected ({type(error).__name__}: {error})"
        ) from error


def _address(
    node: PoolNode, pool: Pool, interfaces: Sequence[_Interface], reached: Iterable[str | None]
) -> tuple[str | None, str]:
    """Interface and address that other nodes use."""
    if pool.interface is not None and interfaces:
        return _on_interface(node, pool.interface, interfaces)
    if pool.backend is BackendKind.LOCAL:
        own = _parse(node.host) or ipaddress.IPv4Address("127.0.0.1")
        holder = _holder(own, interfaces)
        if holder is None and own.is_loopback:
            # All of 127.0.0.0/8 is on the loopback interface, though it lists the first address only.
            holder = next((interface for interface in interfaces if interface.loopback), None)
            return (holder.name if holder else "lo"), str(own)
        return (holder.name if holder else None), str(own)
    candidates = [address for text in reached if (address := _parse(text)) is not None]
    held = [(holder, address) for address in candidates if (holder := _holder(address, interfaces))]
    for holder, address in held:
        if not holder.is_inside:
            return holder.name, str(holder.reachable_address() or address)
    for interface in interfaces:
        usable = interface.reachable_address()
        if interface.up and usable is not None and not interface.is_inside:
            return interface.name, str(usable)
    for holder, address in held:
        return holder.name, str(holder.reachable_address() or address)
    if candidates:
        return pool.interface, str(candidates[0])
    raise NodeRefusal(
        [
            Problem(
                node.name,
                "interface",
                "no network interface of it has an address that other nodes can reach",
                hint="bring an interface up, or name the node by its address in the pool",
            )
        ]
    )


def _on_interface(node: PoolNode, name: str, interfaces: Sequence[_Interface]) -> tuple[str, str]:
    found = next((interface for interface in interfaces if interface.name == name), None)
    if found is None:
        there = ", ".join(_described(interface) for interface in interfaces)
        message = f"there is no network interface '{name}'; there are {there}"
    elif not found.addresses:
        message = f"the network interface '{name}' has no address" + ("" if found.up else " and is down")
    else:
        return name, str(found.reachable_address() or found.addresses[0])
    raise NodeRefusal(
        [
            Problem(
                node.name,
                "interface",
                message,
                value=name,
                why="interface",
                hint="correct `interface` in the pool, or leave it out: then the one ssh came in on is taken",
            )
        ]
    )


def _described(interface: _Interface) -> str:
    addresses = ", ".join(str(address) for address in interface.addresses)
    return f"{interface.name} ({addresses or 'no address'}{'' if interface.up else ', down'})"


def _holder(address: _Address, interfaces: Sequence[_Interface]) -> _Interface | None:
    return next((interface for interface in interfaces if address in interface.addresses), None)


def _interface(entry: Mapping[str, Any]) -> _Interface:
    networks = [*entry.get("networks", ()), *[""] * len(entry["addresses"])]
    parsed = [(_parse(text), str(net)) for text, net in zip(entry["addresses"], networks, strict=False)]
    return _Interface(
        name=str(entry["name"]),
        loopback=bool(entry["loopback"]),
        up=bool(entry["up"]),
        addresses=tuple(address for address, _ in parsed if address is not None),
        networks=tuple(network for address, network in parsed if address is not None),
    )


def _parse(text: str | None) -> _Address | None:
    """An address without its scope; IPv4 in IPv6 clothes is IPv4. None if the text is no address."""
    try:
        address = ipaddress.ip_address((text or "").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _gpu(entry: Mapping[str, Any]) -> GpuFacts:
    memory = entry["memory_mib"]
    return GpuFacts(
        int(entry["index"]), str(entry["name"]), str(entry["uuid"]), None if memory is None else int(memory)
    )
