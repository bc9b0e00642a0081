"""Some nodes of a pool, and some GPUs of a node: `--nodes`, `--include`, `--exclude` and a pool's own keys.

`include` and `exclude` are DeepSpeed's (launcher/runner.py, `parse_resource_filter`): `worker-0@worker-1:0,2`
is all of worker-0 and GPUs 0 and 2 of worker-1. Names may be ranges, and several stand between commas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankdeck_profiles import ranges
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.matching import Nodes, UnknownNodeError
from rankdeck_profiles.model import Pool, PoolNode, Profile
from rankdeck_profiles.nodes import OPERATORS, calculated, expand, numbers, operand

Slots = tuple[int, ...] | None
"""GPUs of one node by their numbers; None: all of it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a pool is to be used, as typed."""

    nodes: str | None = None
    include: str | None = None
    exclude: str | None = None

    def __bool__(self) -> bool:
        return any(text is not None for text in (self.nodes, self.include, self.exclude))


def select(pool: Pool, choice: Choice) -> Pool:
    """A pool with what was chosen of it.

    Args:
        pool: where to choose from.
        choice: `nodes` are taken in the order given, so its first is the head node; `include` and `exclude`
            keep the pool's order.

    Raises:
        PoolError: a name or a GPU is not there, both include and exclude are given, or nothing is left.
    """
    if choice.include is not None and choice.exclude is not None:
        raise PoolError(
            f'include "{choice.include}" and exclude "{choice.exclude}" are both given',
            "give one of the two; nodes and exclude go together",
        )
    nodes = pool.nodes if choice.nodes is None else _named(pool, choice.nodes)
    narrowed = replace(pool, nodes=nodes)
    if choice.include is not None:
        nodes = _included(narrowed, filter_of(narrowed, choice.include))
    elif choice.exclude is not None:
        nodes = _excluded(narrowed, filter_of(narrowed, choice.exclude))
    if not nodes:
        raise PoolError(f"no node of pool '{pool.name}' is left", "choose fewer to leave out")
    return replace(pool, nodes=nodes)


def fitted(
    profile: Profile, choice: Choice, before: Pool, after: Pool, typed: Collection[str] = ()
) -> Profile:
    """A profile whose counts give way to what was chosen: nodes and GPUs that are named are all used.

    Args:
        profile: with the counts of its file.
        choice: what was chosen.
        before: the whole pool.
        after: what `select` made of it.
        typed: counts that were given for this time, too; they stay.
    """
    given_way: list[str] = []
    if choice.nodes is not None or choice.include is not None:
        given_way.append("nodes")
    gpus = {node.name: (node.gpus, node.hidden_gpus) for node in before.nodes}
    if any(gpus[node.name] != (node.gpus, node.hidden_gpus) for node in after.nodes):
        given_way += ["procs_per_node", "process_count"]
    changes: dict[str, Any] = {key: None for key in given_way if key not in typed}
    return replace(profile, **changes) if changes else profile


def filter_of(pool: Pool, text: str) -> dict[str, Slots]:
    """DeepSpeed's notation, by the names of the pool's nodes.

    Raises:
        PoolError: it is none, or a node or a GPU is not there.
    """
    known = Nodes(pool.nodes, f"pool '{pool.name}'")
    found: dict[str, Slots] = {}
    for piece in _pieces(text):
        # One of several ports of a host is `host:22` by name, and no host with GPU 22.
        names, slots = ([piece], None) if piece in known else _name_and_slots(text, piece)
        for node in _nodes_of(known, names):
            if slots is not None:
                _check(pool, node, slots)
            before = found.get(node.name, ())
            found[node.name] = None if slots is None or before is None else tuple(sorted({*before, *slots}))
    return found


def gpus_known(pool: Pool, node: PoolNode) -> Slots:
    """The GPUs of a node as far as the pool says; None: its own answer is needed."""
    if node.gpus is not None:
        return node.gpus
    count = node.slots if node.slots is not None else pool.slots
    return None if count is None else tuple(range(count))


def _named(pool: Pool, text: str) -> tuple[PoolNode, ...]:
    names = ranges.split(text)
    if not names:
        raise PoolError("no node is named", "give names or ranges, such as gpu[001-004]")
    try:
        found = _nodes_of(Nodes(pool.nodes, f"pool '{pool.name}'"), names)
    except UnknownNodeError as error:
        if text.strip().isdigit():
            raise UnknownNodeError(
                error.message, f"for a number of nodes: --set nodes={text.strip()}"
            ) from None
        raise
    return tuple(found)


def _nodes_of(known: Nodes, names: list[str]) -> list[PoolNode]:
    """The nodes that names, ranges and groups stand for, each once. Of a group, those that the pool has."""
    found: dict[str, PoolNode] = {}
    for name in names:
        calculation = _is_calculated(name)
        members = _calculated(known, name) if calculation else _members(known, name, _expanded(name))
        found.update((node.name, node) for node in members)
    return list(found.values())


def _members(known: Nodes, name: str, hosts: list[str]) -> list[PoolNode]:
    return _of_group(known, name, hosts) if name.startswith("@") else [known.find(host) for host in hosts]


def _calculated(known: Nodes, expression: str) -> list[PoolNode]:
    """By the pool's nodes and not by their names: one goes by several."""

    def names(text: str) -> list[str]:
        return [node.name for node in _members(known, text, operand(expression, text))]

    return [known.find(name) for name in calculated(expression, expression, names)]


def _of_group(known: Nodes, name: str, hosts: list[str]) -> list[PoolNode]:
    members = []
    missing: UnknownNodeError | None = None
    for host in hosts:
        try:
            members.append(known.find(host))
        except UnknownNodeError as error:
            missing = error
    if not members and missing is not None:
        raise UnknownNodeError(f"no node of group {name} is in the pool: {missing.message}", missing.hint)
    return members


def _is_calculated(name: str) -> bool:
    return any(operator in name for operator in OPERATORS)


def _expanded(name: str) -> list[str]:
    if name.startswith("@"):
        return [node.host for node in expand([name])]
    if name.count(":") > 1:
        return [name.strip("[]")]
    try:
        return ranges.expand(name)
    except ranges.RangeError as error:
        raise PoolError(f'"{name}": {error}', "a range is written as in gpu[001-004,007]") from None


def _pieces(text: str) -> list[str]:
    """What stands between @; one at the very beginning belongs to a group's name."""
    group = text.startswith("@")
    pieces = text[group:].split("@")
    if group:
        pieces[0] = f"@{pieces[0]}"
    if any(not piece.strip(" @") for piece in pieces):
        raise _unreadable(text, "a name is missing")
    return [piece.strip() for piece in pieces]


def _name_and_slots(text: str, piece: str) -> tuple[list[str], Slots]:
    name, colon, slots = piece.rpartition(":")
    if not colon or (piece.count(":") > 1 and not name.endswith("]")):
        return ranges.split(piece), None
    try:
        return [name], numbers(slots)
    except ValueError:
        raise _unreadable(text, f'"{slots}" behind {name}: is no list of GPUs') from None


def _unreadable(text: str, why: str) -> PoolError:
    return PoolError(
        f'"{text}": {why}', "write nodes as worker-0@worker-1:0,2 (all of worker-0, two of worker-1)"
    )


def _check(pool: Pool, node: PoolNode, slots: tuple[int, ...]) -> None:
    known = gpus_known(pool, node)
    bad = next((slot for slot in slots if known is not None and slot not in known), None)
    if known is not None and bad is not None:
        raise PoolError(f"slot {bad} is not on {node.name} ({spans(known)})", "slots are counted from 0")


def _included(pool: Pool, wanted: Mapping[str, Slots]) -> tuple[PoolNode, ...]:
    return tuple(_only(node, wanted[node.name]) for node in pool.nodes if node.name in wanted)


def _excluded(pool: Pool, unwanted: Mapping[str, Slots]) -> tuple[PoolNode, ...]:
    nodes = []
    for node in pool.nodes:
        away = unwanted.get(node.name, ())
        if away is None:
            continue
        known = gpus_known(pool, node)
        if not away:
            nodes.append(node)
        elif known is None:
            nodes.append(replace(node, hidden_gpus=tuple(sorted({*node.hidden_gpus, *away}))))
        elif left := tuple(slot for slot in known if slot not in away):
            nodes.append(_only(node, left))
    return tuple(nodes)


def _only(node: PoolNode, slots: Slots) -> PoolNode:
    return node if slots is None else replace(node, gpus=slots, slots=len(slots), hidden_gpus=())


def spans(values: tuple[int, ...]) -> str:
    """`0-3,6`."""
    rows: list[list[int]] = []
    for value in values:
        if rows and value == rows[-1][-1] + 1:
            rows[-1].append(value)
        else:
            rows.append([value])
    return ",".join(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}" for row in rows)
