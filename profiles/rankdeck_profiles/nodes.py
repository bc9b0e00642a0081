"""Node names as pools write them: `gpu[001-004]`, `alice@gpu007:2222`, `[fe80::7]:22`, `gpu9 slots=4`."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rankdeck_profiles import ranges
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.matching import short
from rankdeck_profiles.model import PoolNode

ALLOWED = (
    'a host name, an address, a range such as "gpu[001-004]" or a group of this site such as "@gpu"; '
    '"user@" before and ":port" after if needed, "slots=N" and "gpus=0,2" behind'
)
"""What an entry may be, for messages."""

MAX_SLOTS = 4096
"""The most slots of one node: more than machines have CPUs."""

MAX_NAME = 253
"""The most characters of a host name (RFC 1035, 2.3.4: 255 octets on the wire)."""

OPERATORS = "!&^"
"""ClusterShell's operators between sets of nodes: without, in both, in one only (nodeset(1))."""

_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\](?::(.*))?", re.ASCII)
_RANGE = re.compile(r"(?:[A-Za-z0-9._-]|\[[0-9,/-]+\])+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_GROUP = re.compile(r"@[A-Za-z0-9_*][A-Za-z0-9._:*-]*", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._$+\\-]*", re.ASCII)


class NodeSyntaxError(PoolError):
    """An entry of `nodes` cannot be read.

    Attributes:
        entry: the entry as written.
    """

    def __init__(self, entry: str, why: str, hint: str = "") -> None:
        super().__init__(f'"{entry}": {why}', hint)
        self.entry = entry


@dataclass(frozen=True, slots=True)
class Listed:
    """What entries stand for."""

    nodes: tuple[PoolNode, ...]
    notes: tuple[str, ...] = ()
    """What a person should know: a node that one range names twice."""


def expand(entries: Iterable[str]) -> tuple[PoolNode, ...]:
    """The nodes that a pool's `nodes` stand for. As `listed`, without the notes."""
    return listed(entries).nodes


def listed(entries: Iterable[str]) -> Listed:
    """The nodes that a pool's `nodes` stand for, and what is to be said of them.

    Args:
        entries: host names, addresses, ranges or groups of the site, each with an optional user and port, and
            behind it words for its nodes: `slots=4` (how many ranks each takes), `gpus=0,2` (only these),
            `gpus=^1` (all but these).

    Returns:
        The nodes in the order written. A node's name is its host; where one host is listed with several
        ports, it is host:port. A node that one range names twice is there once.

    Raises:
        NodeSyntaxError: an entry cannot be read.
        PoolError: a node is listed twice.
    """
    notes: list[str] = []
    nodes = [node for entry in entries for node in _expand_entry(entry, notes)]
    with_names = named(nodes)
    twice = repeated(with_names)
    if twice:
        raise PoolError(
            f"listed more than once: {', '.join(twice)}",
            "every node of a pool is listed once; `slots` says how many ranks it takes",
        )
    return Listed(with_names, tuple(notes))


def named(nodes: Iterable[PoolNode]) -> tuple[PoolNode, ...]:
    """Nodes with their names: the host; where one host is there with several ports, host:port."""
    given = tuple(nodes)
    ports: dict[str, set[int | None]] = {}
    for node in given:
        ports.setdefault(node.host, set()).add(node.port)
    return tuple(
        replace(node, name=_with_port(node)) if len(ports[node.host]) > 1 else node for node in given
    )


def repeated(nodes: Iterable[PoolNode]) -> list[str]:
    """The names that more than one node has."""
    return [name for name, count in Counter(node.name for node in nodes).items() if count > 1]


def entry_of(node: PoolNode, host: str = "") -> str:
    """A node, or a range of alike nodes, as an entry that stands for it.

    Args:
        node: user, port, slots and GPUs are taken from it.
        host: the range; empty: the node's own host.
    """
    words = [(f"{node.user}@" if node.user else "") + (host or bracketed(node.host))]
    if node.port:
        words[0] += f":{node.port}"
    if node.slots is not None:
        words.append(f"slots={node.slots}")
    if node.gpus is not None:
        words.append("gpus=" + ",".join(map(str, node.gpus)))
    elif node.hidden_gpus:
        words.append("gpus=^" + ",".join(map(str, node.hidden_gpus)))
    return " ".join(words)


def entries_of(nodes: Iterable[PoolNode]) -> list[str]:
    """Nodes as entries, in the same order; neighbours that are alike but for a number become a range."""
    entries: list[str] = []
    alike: list[PoolNode] = []

    def close() -> None:
        if alike and ":" in alike[0].host:
            entries.append(entry_of(alike[0]))
        elif alike:
            entries.extend(entry_of(alike[0], host) for host in ranges.fold(node.host for node in alike))
        alike.clear()

    for node in nodes:
        if alike and (":" in node.host + alike[-1].host or _manner(node) != _manner(alike[-1])):
            close()
        alike.append(node)
    close()
    return entries


def bracketed(address: str) -> str:
    """An address as it is written before `:port`: IPv6 in brackets (RFC 3986, 3.2.2)."""
    return f"[{address}]" if ":" in address else address


def numbers(text: str) -> tuple[int, ...]:
    """`0,2-3` as numbers, sorted, each once.

    Raises:
        ValueError: it is something else.
    """
    try:
        return tuple(sorted({int(number) for number in ranges.expand(f"[{text}]")}))
    except ranges.RangeError as error:
        raise ValueError(str(error)) from None


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


def is_host(text: str) -> bool:
    """Whether it can be a host's name or IPv4 address."""
    return len(text) <= MAX_NAME and bool(_HOST.fullmatch(text))


def too_long(text: str) -> str:
    """What is to be said of a name that is longer than host names are; empty: it is not."""
    if len(text) <= MAX_NAME:
        return ""
    return f'"{text[:24]}..." has {len(text)} characters; allowed in a host name: at most {MAX_NAME}'


def is_group(text: str) -> bool:
    """Whether it names a group of the site: `@gpu`, `@racks:r1`."""
    return bool(_GROUP.fullmatch(text))


def is_user(text: str) -> bool:
    """Whether it can be a login name."""
    return bool(_USER.fullmatch(text))


def _manner(node: PoolNode) -> tuple[object, ...]:
    return node.user, node.port, node.slots, node.gpus, node.hidden_gpus


def _with_port(node: PoolNode) -> str:
    return f"{bracketed(node.host)}:{node.port or 22}"


def _expand_entry(entry: str, notes: list[str]) -> list[PoolNode]:
    first, *words = entry.split() or [""]
    options = _options(entry, words)
    if any(operator in first for operator in OPERATORS):
        return [replace(options, name=host, host=host) for host in _calculated(entry, first)]
    if is_group(first):
        return [replace(options, name=host, host=host) for host in _members(first)]
    user, at, rest = first.rpartition("@")
    if at and not is_user(user):
        raise NodeSyntaxError(entry, f'"{user}" is no user name; allowed: {ALLOWED}')
    hosts, port = _hosts_and_port(entry, rest)
    once = list(dict.fromkeys(hosts))
    if len(once) < len(hosts):
        again = ", ".join(name for name, count in Counter(hosts).items() if count > 1)
        notes.append(f'"{entry}" names {again} more than once; it is one node')
    return [replace(options, name=host, host=host, user=user or None, port=port) for host in once]


def _members(group: str) -> list[str]:
    from rankdeck_profiles import groups  # only where one is named: it reads the site's files

    return groups.members(group)


def calculated(entry: str, expression: str, names: Callable[[str], Iterable[str]]) -> list[str]:
    """The nodes of `gpu[001-009]!gpu003`: left to right as ClusterShell does, but in the order written.

    Args:
        entry: what it stands in, for messages.
        expression: names, ranges and groups between operators.
        names: what one of them stands for; a node has to have the same name each time.

    Raises:
        NodeSyntaxError: no node is left.
    """
    first, *further = re.split(f"([{re.escape(OPERATORS)}])", expression)
    found = dict.fromkeys(names(first))
    for operator, text in zip(further[::2], further[1::2], strict=True):
        other = dict.fromkeys(names(text))
        if operator == "&":
            found = {name: None for name in found if name in other}
        else:
            added = [name for name in other if name not in found] if operator == "^" else []
            found = dict.fromkeys([*(name for name in found if name not in other), *added])
    if not found:
        raise NodeSyntaxError(entry, "no node is left of it")
    return list(found)


def _calculated(entry: str, expression: str) -> list[str]:
    """Of an entry of a pool: `gpu3` there is the `gpu3.cluster.example.org` that was named before."""
    spelled: dict[str, str] = {}

    def names(text: str) -> list[str]:
        named = []
        for name in operand(entry, text):
            before = spelled.setdefault(short(name), name)
            named.append(before if short(name) in (name, before) else name)
        return named

    return calculated(entry, expression, names)


def operand(entry: str, text: str) -> list[str]:
    """The names that stand for one side of an operator.

    Raises:
        NodeSyntaxError: it is no name, range or group.
        GroupError: there is no such group.
    """
    if is_group(text):
        return _members(text)
    if not _RANGE.fullmatch(text):
        found = f'"{text}"' if text else "nothing"
        raise NodeSyntaxError(
            entry,
            f"{found} found beside an operator; allowed there: a name, a range or a group. "
            '"!" is without, "&" in both, "^" in one only',
        )
    return _range(entry, text)


def _options(entry: str, words: list[str]) -> PoolNode:
    """The words behind an entry's host, as a node that has only them."""
    node = PoolNode("", "")
    before: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if before.setdefault(key, word) != word:
            raise NodeSyntaxError(entry, f"both {before[key]} and {word}; keep one of them")
        if key == "slots":
            if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= MAX_SLOTS):
                raise NodeSyntaxError(entry, f'slots "{value}" found; allowed: 1 to {MAX_SLOTS}')
            node = replace(node, slots=int(value))
        elif key == "gpus":
            chosen = _gpus(entry, value.removeprefix("^"))
            hidden = value.startswith("^")
            node = replace(node, hidden_gpus=chosen) if hidden else replace(node, gpus=chosen)
        else:
            raise NodeSyntaxError(entry, f"allowed: {ALLOWED}; several nodes are several strings")
    return node


def _gpus(entry: str, value: str) -> tuple[int, ...]:
    try:
        return numbers(value)
    except ValueError as error:
        raise NodeSyntaxError(
            entry, f'gpus "{value}": {error}; allowed: numbers such as 0,2 or 0-3, or ^1 for all but these'
        ) from None


def _hosts_and_port(entry: str, rest: str) -> tuple[list[str], int | None]:
    if match := _IPV6.fullmatch(rest):
        if ":" in match[1]:
            return [_ipv6(entry, match[1])], _port(entry, match[2])
        raise NodeSyntaxError(entry, f"a range needs a name before it; allowed: {ALLOWED}")
    if rest.count(":") > 1:
        return [_ipv6(entry, rest)], None
    pattern, colon, port = rest.partition(":")
    return _range(entry, pattern), _port(entry, port if colon else None)


def check_ipv6(text: str) -> None:
    """Refuse what is no IPv6 address, or has a zone that no interface's name could be.

    Raises:
        ValueError: says why.
    """
    ipaddress.IPv6Address(text)
    zone = text.partition("%")[2]
    if not re.fullmatch(r"[A-Za-z0-9._-]*", zone, re.ASCII):
        raise ValueError(f'"{zone}" is no interface')


def _ipv6(entry: str, text: str) -> str:
    try:
        check_ipv6(text)
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
    if pattern.count("[") != pattern.count("]"):
        raise NodeSyntaxError(entry, 'a bracket is not closed; a range is written as in "gpu[001-004,007]"')
    if not _RANGE.fullmatch(pattern):
        raise NodeSyntaxError(entry, f"allowed: {ALLOWED}; several nodes are several strings")
    try:
        hosts = ranges.expand(pattern)
    except ranges.RangeError as error:
        raise NodeSyntaxError(entry, f'{error}; a range is written as in "gpu[001-004,007]"') from None
    bad = next((host for host in hosts if not is_host(host)), None)
    if bad is not None:
        raise NodeSyntaxError(entry, too_long(bad) or f'"{bad}" is no host name; allowed: {ALLOWED}')
    return hosts
