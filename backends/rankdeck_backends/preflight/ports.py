"""The head node's rendezvous port: is it free, and can a client's socket take it first."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.entries import Entry, entries
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.readings import digits

_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
_WORDS = {
    "EADDRINUSE": "is in use",
    "EACCES": "is for root only",
    "EADDRNOTAVAIL": "cannot be had: no interface has that address",
}


def free(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """port.free."""
    if node is not pool.head:
        return skipped("only the head node's ports matter")
    tried = entries(node.readings, "ports")
    if not tried:
        return skipped("no port was tried")
    taken = [each for each in tried if each.get("state") != "ok"]
    if not taken:
        return passed(
            f"port {', '.join(str(each.get('port')) for each in tried)} is free",
            *(_evidence(each) for each in tried),
        )
    return failed(
        "; ".join(_told(each) for each in taken),
        *(_evidence(each) for each in taken),
        fix=_fix(pool, refused=all(each.get("state") == "EACCES" for each in taken)),
    )


def _fix(pool: ProbedPool, *, refused: bool) -> str:
    """What helps, where it is not the check's own fix."""
    if refused:
        return "leave master_port out of the profile, or choose one of 1024 and above"
    return (
        "it was free a moment ago: try again, and rankdeck takes another one" if pool.asked.took_port else ""
    )


def _told(entry: Entry) -> str:
    state = str(entry.get("state"))
    text = (
        f"port {entry.get('port')} on {entry.get('address')} {_WORDS.get(state, f'cannot be had ({state})')}"
    )
    owner = entry.get("owner")
    if isinstance(owner, Mapping):
        text += (
            f", by process {owner.get('pid')} of user {owner.get('uid')}: {str(owner.get('command'))[:120]}"
        )
    return text


def _evidence(entry: Entry) -> Evidence:
    return Evidence.of(f"bind {entry.get('address')} port {entry.get('port')}", entry.get("state"))


def outside_range(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """port.range."""
    port = pool.asked.master_port
    if node is not pool.head:
        return skipped("only the head node's ports matter")
    if port is None:
        return skipped("no port is settled yet: rankdeck takes a free one")
    limits = node.readings.file(_RANGE) or ""
    low, high = ([digits(each) for each in limits.split()] + [None, None])[:2]
    if low is None or high is None:
        return skipped("which ports the kernel gives to clients is not known")
    evidence = Evidence.of(_RANGE, limits)
    if low <= port <= high and not _reserved(node.readings.file(_RESERVED) or "", port):
        return warned(f"port {port} is one that the kernel gives to clients ({low} to {high})", evidence)
    return passed(f"no client is given port {port}", evidence)


def _reserved(text: str, port: int) -> bool:
    """Whether a list such as `8080,30000-30010` holds the port."""
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = digits(first)
        high = digits(last) if dash else low
        if low is not None and high is not None and low <= port <= high:
            return True
    return False


CHECKS = (
    Check(
        id="port.free",
        group=Group.SOCKETS,
        title="the rendezvous port is free",
        reads="bind to the port on the head node's address, without SO_REUSEADDR; its owner from "
        "/proc/net/tcp",
        rule="fail: it cannot be had; the program that has it is named",
        symptom="EADDRINUSE: The server socket has failed to listen on any local network address",
        fix="leave master_port out of the profile: rankdeck then takes a free one; end the old run if it is "
        "yours",
        source="pytorch/pytorch issue 126510",
        node=free,
    ),
    Check(
        id="port.range",
        group=Group.SOCKETS,
        title="no client can take the port first",
        reads=f"{_RANGE}, {_RESERVED}",
        rule="warn: the port is in the kernel's range for clients and not reserved (whether it may be had at "
        "all, below 1024 for instance, is port.free's)",
        symptom="EADDRINUSE now and then",
        fix="choose a port from 20000 to 32000",
        source="linux Documentation/networking/ip-sysctl.rst",
        node=outside_range,
    ),
)
