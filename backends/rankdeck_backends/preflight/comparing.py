"""The pool compared with itself: which value most nodes have, and which nodes have another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from rankdeck_backends.preflight.finding import Evidence

Value = TypeVar("Value", bound=Hashable)

NAMES_SHOWN = 6
"""Nodes that a message names before it counts the rest."""


def groups(values: Mapping[str, Value]) -> list[tuple[Value, tuple[str, ...]]]:
    """The distinct values, each with its nodes: the most common first, of equals the one met first."""
    found: dict[Value, list[str]] = {}
    for node, value in values.items():
        found.setdefault(value, []).append(node)
    return sorted(((value, tuple(nodes)) for value, nodes in found.items()), key=lambda each: -len(each[1]))


def odd_ones(values: Mapping[str, Value]) -> tuple[str, ...]:
    """The nodes whose value is not the most common one; empty: all alike."""
    return tuple(node for _, nodes in groups(values)[1:] for node in nodes)


def told(values: Mapping[str, Value]) -> str:
    """`2.6.0 on n1, n2; 2.5.1 on n3`."""
    return "; ".join(f"{value} on {names(nodes)}" for value, nodes in groups(values))


def names(nodes: Iterable[str]) -> str:
    """`n1, n2, n3`; of many nodes the first few and how many more."""
    listed = list(nodes)
    if len(listed) <= NAMES_SHOWN:
        return ", ".join(listed)
    return f"{', '.join(listed[: NAMES_SHOWN - 1])} and {len(listed) - NAMES_SHOWN + 1} more"


def side_by_side(source: str, values: Mapping[str, object]) -> tuple[Evidence, ...]:
    """One raw value a node; of a large pool one node for each distinct value."""
    texts = {node: str(value) for node, value in values.items()}
    shown = texts if len(texts) <= NAMES_SHOWN else {nodes[0]: text for text, nodes in groups(texts)}
    return tuple(Evidence.of(source, text).on(node) for node, text in shown.items())
