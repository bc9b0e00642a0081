"""Node names as pools write them: `gpu[001-004]`, `alice@gpu007:2222`, `[fe80::7]:22`, and host files."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.model import PoolNode

MAX_RANGE = 65536
"""The most nodes one range may stand for; more is a slip of the finger, and would be held in memory whole."""

ALLOWED = (
    'a host name, an address or a range such as "gpu[001-004]"; "user@" before and ":port" after if needed'
)
"""What an entry may be, for messages."""

_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\](?::(.*))?", re.ASCII)
_RANGE = re.compile(r"(?:[A-Za-z0-9._-]|\[[0-9,/-]+\])+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._$+\\-]*", re.ASCII)
_SPAN = re.compile(r"(\d+)-(\d+)")


class NodeSyntaxError(PoolError):
    """An entry of `nodes` cannot be read.

    Attributes:
        entry: the entry as written.
    """

    def __init__(self, entry: str, why: str) -> None:
        super().__init__(f'"{entry}": {why}')
        self.entry = entry


@dataclass(frozen=True, slots=True)
class HostfileLine:
    """One node of a host file."""

    entry: str
    slots: int | None
    line: int


def expand(entries: Iterable[str]) -> tuple[PoolNode, ...]:
    """The nodes that a pool's `nodes` stand for.

    Args:
        entries: host names, addresses or ranges, each with an optional user and port. Ranges are read by
            ClusterShell's NodeSet; group names are not looked up.

    Returns:
        The nodes in the order written (a range in its own order). A node's name is its host; where one host
        is listed with several ports, it is host:port.

    Raises:
        NodeSyntaxError: an entry cannot be read.
        PoolError: a node is listed twice.
    """
    nodes = [node for entry in entries for node in _expand_entry(entry)]
    ports: dict[str, set[int | None]] = {}
    for node in nodes:
        ports.setdefault(node.host, set()).add(node.port)
    named = [
        PoolNode(_with_port(node), node.host, node.user, node.port) if len(ports[node.host]) > 1 else node
        for node in nodes
    ]
    twice = [name for name, count in Counter(node.name for node in named).items() if count > 1]
    if twice:
        raise PoolError(
            f"listed more than once: {', '.join(twice)}",
            "every node of a pool is listed once; `slots` says how many ranks it takes",
        )
    return tuple(named)


def read_hostfile(text: str) -> tuple[HostfileLine, ...]:
    """The lines of a host file: `host`, `host slots=N` or `host:N`, with `#` comments.

    Raises:
        NodeSyntaxError: a line says something else; the text names the line's number.
    """
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        host, *rest = words
        slots = None
        if not rest and (match := re.fullmatch(r"([^:\[\]]+):(\d+)", host)):
            host, slots = match[1], int(match[2])
        elif len(rest) == 1 and (match := re.fullmatch(r"slots=(\d+)", rest[0])):
            slots = int(match[1])
        elif rest:
            raise NodeSyntaxError(
                raw.strip(), f'line {number}: a line is "host", "host slots=N" or "host:N", with N from 1'
            )
        if slots == 0:
            raise NodeSyntaxError(
                raw.strip(), f"line {number}: a node with 0 slots takes no ranks; leave it out"
            )
        lines.append(HostfileLine(host, slots, number))
    return tuple(lines)


def _with_port(node: PoolNode) -> str:
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{host}:{node.port or 22}"


def _expand_entry(entry: str) -> list[PoolNode]:
    user, at, rest = entry.strip().rpartition("@")
    if at and not _USER.fullmatch(user):
        raise NodeSyntaxError(entry, f'"{user}" is no user name; allowed: {ALLOWED}')
    hosts, port = _hosts_and_port(entry, rest)
    return [PoolNode(name=host, host=host, user=user or None, port=port) for host in hosts]


def _hosts_and_port(entry: str, rest: str) -> tuple[list[str], int | None]:
    if match := _IPV6.fullmatch(rest):
        if ":" in match[1]:
            return [_ipv6(entry, match[1])], _port(entry, match[2])
        raise NodeSyntaxError(entry, f"a range needs a name before it; allowed: {ALLOWED}")
    if rest.count(":") > 1:
        return [_ipv6(entry, rest)], None
    pattern, colon, port = rest.partition(":")
    return _range(entry, pattern), _port(entry, port if colon else None)


def _ipv6(entry: str, text: str) -> str:
    try:
        ipaddress.IPv6Address(text)
    except ValueError as error:
        raise NodeSyntaxError(
            entry, f"no IPv6 address ({error}); write it as [fe80::7] or [fe80::7]:22"
        ) from None
    return text


def _port(entry: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65535):
        raise NodeSyntaxError(entry, f'port "{text}" found; allowed: 1 to 65535')
    return int(text)


def _range(entry: str, pattern: str) -> list[str]:
    if not _RANGE.fullmatch(pattern):
        raise NodeSyntaxError(entry, f"allowed: {ALLOWED}; several nodes are several strings")
    for low, high in _SPAN.findall(pattern):
        if int(high) - int(low) >= MAX_RANGE:
            raise NodeSyntaxError(entry, f"more than {MAX_RANGE} nodes in one range")
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        hosts = [str(host) for host in NodeSet(pattern, resolver=RESOLVER_NOGROUP)]
    except NodeSetException as error:
        raise NodeSyntaxError(entry, f'{error}; a range is written as in "gpu[001-004,007]"') from None
    bad = next((host for host in hosts if not _HOST.fullmatch(host)), None)
    if bad is not None:
        raise NodeSyntaxError(entry, f'"{bad}" is no host name; allowed: {ALLOWED}')
    return hosts


def folded(names: Iterable[str]) -> str:
    """Many names in few words: `gpu[001-003,007]`; names that are in no row stand beside each other.

    Args:
        names: node names, in any order.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # only where it is needed: 30 ms

    given = list(dict.fromkeys(names))
    plain = [name for name in given if _HOST.fullmatch(name)]
    others = [name for name in given if not _HOST.fullmatch(name)]
    return ", ".join([str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP)), *others] if plain else others)
