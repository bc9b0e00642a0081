"""How the nodes reach each other over TCP: names, networks, addresses, and real connections."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, names, odd_ones, side_by_side
from rankdeck_backends.preflight.entries import Entry, entries, number
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_backends.preflight.wiring import PAIRS_SHOWN, connects
from rankdeck_profiles.fabric.sockets import Meeting, meet

SLOW_NAME, STUCK_NAME = 1.0, 5.0
"""Seconds for the name of one address: torch asks once for each connection."""

ONE_MACHINE = "all ranks are on this machine: they need no address that others reach"


def hostname(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """net.hostname on one node."""
    if pool.on_one_machine:
        return skipped(ONE_MACHINE)
    if node.readings.syscall("resolve_self") == "timeout":
        return failed(
            f"looking up the node's own name {node.hostname} takes too long",
            Evidence.of(f"getaddrinfo({node.hostname})", "timeout"),
            fix="put the name into /etc/hosts, or mend the name server",
        )
    answers = node.readings.texts("resolve_self")
    if answers is None:
        return skipped("what the node's own name leads to is not known")
    evidence = Evidence.of(f"getaddrinfo({node.hostname})", ", ".join(answers) or "no address")
    parsed = [address for text in answers if (address := _address(text)) is not None]
    if not parsed:
        return failed(f"the node's own name {node.hostname} leads to no address", evidence)
    outside = [each for each in parsed if not each.is_loopback]
    if not outside:
        return failed(
            f"the node's own name {node.hostname} leads to {parsed[0]}, which no other node reaches", evidence
        )
    running = {held.ip for each in node.fabric.interfaces if each.running for held in each.addresses}
    if running and not running.intersection(outside):
        return failed(
            f"the node's own name {node.hostname} leads to {outside[0]}, which no interface has that is up",
            evidence,
        )
    if len(outside) < len(parsed):
        return warned(f"the node's own name {node.hostname} leads to a loopback address, too", evidence)
    return passed(f"{node.hostname} leads to {outside[0]}", evidence)


def peers(pool: ProbedPool) -> Outcome:
    """net.hostname over the pool: does each node find the others by their names."""
    seen = {
        node.name: found for node in pool if (found := node.readings.mapping("resolve_peers")) is not None
    }
    if not seen:
        return skipped("the nodes' names were not looked up from each other")
    lost = {
        name: [peer for peer, found in peers_of.items() if not _outside(found)]
        for name, peers_of in seen.items()
    }
    lost = {name: each for name, each in lost.items() if each}
    if lost:
        return warned(
            "; ".join(
                f"{name} does not find {names(each)} by name"
                for name, each in list(lost.items())[:PAIRS_SHOWN]
            ),
            *(
                Evidence.of(f"getaddrinfo({each[0]})", seen[name][each[0]] or "no address").on(name)
                for name, each in list(lost.items())[:PAIRS_SHOWN]
            ),
            fix="add the nodes to /etc/hosts, or name them by addresses; MASTER_ADDR is an address anyway",
            nodes=lost,
        )
    differing = _seen_differently(seen)
    if differing:
        peer, views = differing
        return warned(
            f"{peer} is another address to other nodes: "
            + "; ".join(f"{address} to {names(nodes)}" for address, nodes in groups(views)),
            *side_by_side(f"getaddrinfo({peer})", views),
            nodes=[name for _, nodes in groups(views)[1:] for name in nodes],
        )
    return passed("the nodes find each other by name")


def _outside(found: Any) -> list[str]:
    """The addresses of an answer that are not loopback."""
    texts = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    return [text for text in texts if (address := _address(text)) is not None and not address.is_loopback]


def _seen_differently(seen: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, str]] | None:
    for peer in dict.fromkeys(peer for each in seen.values() for peer in each):
        views = {name: ", ".join(sorted(_outside(each[peer]))) for name, each in seen.items() if peer in each}
        if len(set(views.values())) > 1:
            return peer, views
    return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def own_interface(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """net.iface on one node: is there any address that others could use."""
    if pool.on_one_machine:
        return skipped(ONE_MACHINE)
    if not node.fabric.interfaces:
        return skipped("the node's interfaces are not known")
    place = _meeting([node], pool).places.get(node.name)
    if place is None:
        return failed(
            "no interface that is up has an address that other nodes could use",
            *(Evidence.of("ip addr", each.name) for each in node.fabric.interfaces),
        )
    return passed(f"{place.interface.name} has {place.address}", Evidence.of("ip addr", place.address))


def common_network(pool: ProbedPool) -> Outcome:
    """net.iface over the pool."""
    if pool.on_one_machine:
        return skipped(ONE_MACHINE)
    if not all(node.fabric.interfaces for node in pool):
        return skipped(
            f"interfaces unknown: {names(node.name for node in pool if not node.fabric.interfaces)}"
        )
    meeting = _meeting(pool, pool)
    found = {node.name: meeting.places.get(node.name) for node in pool}
    networks = {name: str(place.network) if place else "none" for name, place in found.items()}
    evidence = side_by_side(
        "ip addr",
        {
            name: f"{place.interface.name} {place.address}" if place else "none"
            for name, place in found.items()
        },
    )
    if meeting.common:
        return passed(f"all nodes are in {meeting.network}: {meeting.why}", *evidence)
    if _proved(pool):
        return passed(f"{meeting.why}; but they reach each other", *evidence)
    without = [name for name, place in found.items() if place is None]
    return failed(meeting.why, *evidence, nodes=without or odd_ones(networks))


def _meeting(nodes: Iterable[ProbedNode], pool: ProbedPool) -> Meeting:
    return meet(
        {node.name: node.fabric for node in nodes},
        addresses=pool.asked.addresses,
        interface=pool.asked.interface,
        rdma=pool.choice.kind is not None,
    )


def _proved(pool: ProbedPool) -> bool:
    """Whether every node tried connections, and all worked: routed networks need no common subnet."""
    tried = [connects(node, "random", "rendezvous") for node in pool]
    return all(tried) and all(each.get("state") == "ok" for entries in tried for each in entries)


def twin_address(pool: ProbedPool) -> Outcome:
    """net.twin-address."""
    if pool.on_one_machine:
        return skipped(ONE_MACHINE)
    holders: dict[str, dict[str, str]] = {}
    for node in pool:
        for each in node.fabric.interfaces:
            for held in each.addresses if each.running and not each.loopback else ():
                if held.version == 4:
                    holders.setdefault(str(held.ip), {})[node.name] = each.name
    if not any(node.fabric.interfaces for node in pool):
        return skipped("the nodes' interfaces are not known")
    twins = {address: nodes for address, nodes in holders.items() if len(nodes) > 1}
    if twins:
        return warned(
            "; ".join(
                f"{address} is on {', '.join(dict.fromkeys(nodes.values()))} of {names(nodes)}"
                for address, nodes in twins.items()
            ),
            *(
                Evidence.of(f"ip addr, {interface}", address).on(name)
                for address, nodes in twins.items()
                for name, interface in list(nodes.items())[:2]
            ),
            nodes=dict.fromkeys(name for nodes in twins.values() for name in nodes),
        )
    return passed("no address is on two nodes")


def reached(pool: ProbedPool) -> Outcome:
    """net.pair."""
    tried = [
        (node.name, each)
        for node in pool
        for each in connects(node, "random", "rendezvous")
        if each.get("state") != "not listening"
    ]
    if not tried:
        return skipped("no connection between the nodes was tried")
    broken = [(name, each) for name, each in tried if each.get("state") != "ok"]
    if broken:
        shown = [
            f"{name} cannot reach {each.get('to')} at {each.get('address')} port {each.get('port')} "
            f"({each.get('state')})"
            for name, each in broken[:PAIRS_SHOWN]
        ]
        more = [f"{len(broken) - PAIRS_SHOWN} more"] if len(broken) > PAIRS_SHOWN else []
        return failed(
            "; ".join([*shown, *more]),
            *(
                Evidence.of(
                    f"connect {each.get('address')} port {each.get('port')} ({each.get('kind')} port)",
                    each.get("state"),
                ).on(name)
                for name, each in broken[:PAIRS_SHOWN]
            ),
            nodes=_blamed(broken),
        )
    slowest = max(
        (each["seconds"] for _, each in tried if isinstance(each.get("seconds"), int | float)), default=0
    )
    return passed(f"{len(tried)} connections between the nodes, the slowest in {slowest * 1000:.1f} ms")


def _blamed(broken: list[tuple[str, Entry]]) -> list[str]:
    """The nodes that are in every broken pair; where there are none, all that are in one."""
    pairs = [{name, str(each.get("to"))} for name, each in broken]
    everywhere = set.intersection(*pairs)
    return sorted(everywhere if len(everywhere) == 1 else set.union(*pairs))


def reverse_dns(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """net.reverse-dns."""
    timed = [
        (str(each.get("address")), seconds)
        for each in entries(node.readings, "reverse_dns")
        if (seconds := number(each, "seconds")) is not None
    ]
    if not timed:
        return skipped("the names of the other nodes' addresses were not looked up")
    address, seconds = max(timed, key=lambda each: each[1])
    evidence = Evidence.of(f"getnameinfo({address})", f"{seconds:.3f} s")
    if seconds > STUCK_NAME:
        return failed(
            f"the name of {address} takes {seconds:.1f} s: every connection waits as long", evidence
        )
    if seconds > SLOW_NAME:
        return warned(
            f"the name of {address} takes {seconds:.1f} s: every connection waits as long", evidence
        )
    return passed(f"names of addresses come in {seconds * 1000:.0f} ms", evidence)


CHECKS = (
    Check(
        id="net.hostname",
        group=Group.SOCKETS,
        title="names lead to addresses",
        reads="getaddrinfo of the node's own name, and of the other nodes' names",
        rule="fail: the own name leads to a loopback address, to none, or to one that no interface has which "
        "is up (where GLOO_SOCKET_IFNAME is set, that handles it); warn: another node is not found by name, "
        "or by another address",
        symptom="Unable to resolve hostname to a (local) address. Using the loopback address as fallback. "
        "Then Gloo connects to 127.0.1.1",
        fix="in /etc/hosts, put the node's own address beside its name, instead of 127.0.1.1",
        source="pytorch/gloo issue 223, vllm-project/vllm issue 7074",
        node=hostname,
        pool=peers,
        handled_by=("GLOO_SOCKET_IFNAME",),
    ),
    Check(
        id="net.iface",
        group=Group.SOCKETS,
        title="a network that all are in",
        reads="ip -json addr; the addresses that the nodes are known by",
        rule="fail: no network is common to all nodes, and connections between them were not tried or do not "
        "work",
        symptom="Bootstrap : no socket interface found; connections to 172.17.0.1 are refused",
        fix='name the interface in the pool (`interface = "eth0"`), or use nodes of one network',
        source="NVIDIA/nccl src/misc/socket.cc, issue 286",
        node=own_interface,
        pool=common_network,
    ),
    Check(
        id="net.twin-address",
        group=Group.SOCKETS,
        title="no address twice",
        reads="ip -json addr: IPv4 of interfaces that are up",
        rule="warn: two nodes have the same address (docker0, virbr0): these interfaces must be left out "
        "everywhere",
        symptom="mpirun hangs, errno 113 or 104: a node connects to itself",
        fix="leave them out: rankdeck sets btl_tcp_if_include and NCCL_SOCKET_IFNAME; take unused bridges "
        "down",
        source="horovod/horovod issue 310, open-mpi/ompi issues 6377 and 4963",
        pool=twin_address,
        explained_by=("ssh.identity",),
    ),
    Check(
        id="net.pair",
        group=Group.SOCKETS,
        title="nodes reach each other",
        reads="connections to the head's rendezvous port and to a random high port, both ways: a ring and "
        "random pairs, all pairs up to 16 nodes",
        rule="fail: refused, no route, or no answer; both addresses and the port are named",
        symptom="a hang at start: NCCL, Gloo and MPI listen on random ports; connect: No route to host",
        fix="open the ports of /proc/sys/net/ipv4/ip_local_port_range, and the rendezvous port, between the "
        "nodes",
        source="NVIDIA/nccl issue 388",
        pool=reached,
        pair=True,
        explained_by=("net.iface",),
    ),
    Check(
        id="net.reverse-dns",
        group=Group.SOCKETS,
        title="names of addresses come fast",
        reads="getnameinfo of the other nodes' addresses, timed",
        rule=f"warn: more than {SLOW_NAME:.0f} s; fail: more than {STUCK_NAME:.0f} s",
        symptom="[c10d] The hostname of the client socket cannot be retrieved. err=-3, and a start that "
        "takes minutes",
        fix="add the nodes to /etc/hosts, or mend the name server",
        source="pytorch/pytorch issue 159007",
        node=reverse_dns,
    ),
)
