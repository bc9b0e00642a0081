"""The node that a name means, in full or short: `gpu-17` and `gpu-17.cluster.example.org` are one host."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.model import PoolNode

_LISTED = 8


class UnknownNodeError(PoolError):
    """No node goes by that name, or several do."""


class Nodes:
    """Nodes by every name they go by."""

    def __init__(self, nodes: Iterable[PoolNode], where: str) -> None:
        """Take the nodes.

        Args:
            nodes: each once.
            where: what they are the nodes of, for messages: `pool 'lab'`.
        """
        self._where = where
        self._by_name: dict[str, PoolNode] = {}
        self._by_short: dict[str, list[PoolNode]] = {}
        self._by_host: dict[str, list[PoolNode]] = {}
        for node in nodes:
            self._by_name[node.name] = node
            self._by_host.setdefault(node.host, []).append(node)
            self._by_short.setdefault(short(node.host), []).append(node)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, name: str) -> PoolNode:
        """The node: by its own name, by its host, or by its short name where that is of one node only.

        Raises:
            UnknownNodeError: there is none, with the nearest names; or several have that short name.
        """
        if name in self._by_name:
            return self._by_name[name]
        candidates = self._by_host.get(name) or [
            node
            for node in self._by_short.get(short(name), ())
            if name == short(name) or node.host == short(name)
        ]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            listed = ", ".join(node.name for node in candidates[:_LISTED])
            raise UnknownNodeError(
                f'"{name}" is several nodes of {self._where}: {listed}', "give the full name"
            )
        raise UnknownNodeError(f'"{name}" is no node of {self._where}', self._hint(name))

    def _hint(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._by_name, n=3, cutoff=0.5)
        known = list(self._by_name)
        listed = ", ".join(known[:_LISTED]) + (
            f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        )
        return (f"did you mean {' or '.join(near)}? " if near else "") + f"its nodes: {listed}"


def short(host: str) -> str:
    """A host's name up to its first dot; an address stays whole."""
    if ":" in host or host.replace(".", "").isdigit():
        return host
    return host.partition(".")[0]
