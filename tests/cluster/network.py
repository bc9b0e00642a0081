"""The wires: a switch in a namespace of its own, a link from it to every node and one to this machine.

The nodes have no route but their own subnet, so nothing that they send can leave the machine. The switch is
not in the machine's own namespace, so its firewall rules (Docker's, for example) don't apply between nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError, tool

PREFIX = "10.77"
"""First half of every cluster's addresses."""

NEIGHBOURS = 16384
"""Four times what 64 nodes come to that all know each other."""


@dataclass(frozen=True, slots=True)
class Network:
    """The network of one cluster, which is told from others by its number."""

    number: int

    @property
    def name(self) -> str:
        """Name of the machine's link to this cluster, and the beginning of its namespaces' names."""
        return f"rdtest{self.number}"

    @property
    def login_address(self) -> str:
        """This machine's own address, as nodes see it."""
        return f"{PREFIX}.{self.number}.1"

    def address(self, index: int) -> str:
        """The address of a node; index counts from 0."""
        return f"{PREFIX}.{self.number}.{index + 11}"

    def namespace(self, node: str) -> str:
        """The network namespace of a node, as ``ip netns`` names it."""
        return f"{self.name}-{node}"

    @classmethod
    def claim(cls) -> Network:
        """Takes the first number whose link does not exist: making a link is atomic, so nobody else has it.

        Raises:
            ClusterError: No number is free, or links can't be made here.
        """
        taken = tool(["ip", "-o", "addr"])
        for number in range(256):
            network = cls(number)
            if f" {PREFIX}.{number}." in taken:
                continue
            try:
                tool(
                    ["ip", "link", "add", network.name, "type", "veth", "peer", "name", f"{network.name}-sw"]
                )
            except ClusterError as error:
                if "File exists" in str(error):
                    continue
                raise
            return network
        raise ClusterError(f"all 256 networks below {PREFIX}.0.0/16 are in use")

    def up(self, nodes: Sequence[str]) -> None:
        """Makes the switch and every node's namespace with its link ``eth0``."""
        _make_room_for_neighbours()
        switch = self.namespace("switch")
        tool(
            ["ip", "-batch", "-"],
            text="".join(f"netns add {ns}\n" for ns in [switch, *map(self.namespace, nodes)]),
        )
        tool(["ip", "-batch", "-"], text="\n".join(self._machine_side(switch, nodes)))
        for index, node in enumerate(nodes):
            lines = ["link set lo up", f"addr add {self.address(index)}/24 dev eth0", "link set eth0 up"]
            tool(["ip", "-n", self.namespace(node), "-batch", "-"], text="\n".join(lines))
        # The switch last: the other way round, the kernel takes up to a second to call eth0 up.
        tool(["ip", "-n", switch, "-batch", "-"], text="\n".join(self._switch_side(nodes)))

    def _machine_side(self, switch: str, nodes: Sequence[str]) -> Iterator[str]:
        yield f"link set {self.name}-sw netns {switch} name login"
        yield f"addr add {self.login_address}/24 dev {self.name}"
        yield f"link set {self.name} up"
        for node in nodes:
            yield f"link add {node} netns {switch} type veth peer name eth0 netns {self.namespace(node)}"

    @staticmethod
    def _switch_side(nodes: Sequence[str]) -> Iterator[str]:
        yield "link add bridge type bridge"
        yield "link set bridge up"
        for port in ["login", *nodes]:
            yield f"link set {port} master bridge up"

    def set_link(self, node: str, *, up: bool) -> None:
        """Plugs a node's cable in or out at the switch."""
        tool(["ip", "-n", self.namespace("switch"), "link", "set", node, "up" if up else "down"])
        if up:
            # Who asked for its address in vain would say "No route to host" for some seconds more.
            tool(["ip", "neigh", "flush", "dev", self.name, "nud", "failed"])

    def down(self) -> None:
        """Removes all of it; what is not there is no error."""
        names = [line.split()[0] for line in tool(["ip", "netns", "list"]).splitlines() if line.strip()]
        links = tool(["ip", "-o", "link", "show", "type", "veth"])
        if f": {self.name}@" in links or f": {self.name}:" in links:
            tool(["ip", "link", "del", self.name])
        for name in names:
            if name.startswith(f"{self.name}-"):
                tool(["ip", "netns", "del", name])


def _make_room_for_neighbours() -> None:
    """All namespaces share one table of neighbours (arp(7), gc_thresh): 1024 are few for 64 nodes that talk.

    Raised for the machine, as far as it may be, and never lowered.
    """
    for name in ("gc_thresh3", "gc_thresh2"):
        place = Path("/proc/sys/net/ipv4/neigh/default") / name
        with contextlib.suppress(OSError, ValueError):
            if int(place.read_text()) < NEIGHBOURS:
                place.write_text(str(NEIGHBOURS))
