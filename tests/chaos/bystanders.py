"""Processes on every node that are none of rankdeck's business: nobody may touch them."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field

from chaos.sight import PROGRAM, processes
from cluster import Cluster, ClusterError
from cluster.node import START_LIMIT, Node
from cluster.processes import Process

SECONDS = 100000
KINDS = {
    "alice's shell": ("alice", f"exec sleep {SECONDS}"),
    "the user's shell": ("root", f"exec sleep {SECONDS}"),
    "the user's, with a rank's words": ("root", f"exec -a {shlex.quote(PROGRAM)} sleep {SECONDS}"),
    "the user's, of another run": (
        "root",
        f"export RANKDECK_RUN_ID=another RANKDECK_NODE=another/0; exec sleep {SECONDS}",
    ),
}
"""Whose, and what it is."""


@dataclass
class Bystanders:
    """Those of all nodes."""

    cluster: Cluster
    known: dict[tuple[str, str], Process] = field(default_factory=dict)

    def place(self, node: Node) -> None:
        """Starts them on a node."""
        for number, (kind, (user, words)) in enumerate(KINDS.items()):
            mark = f"{node.name}-{number}"
            shell = f"BYSTANDER={mark} setsid bash -c {shlex.quote(words)} </dev/null >/dev/null 2>&1 &"
            node.run(["sh", "-c", shell], user=user)
            self.known[node.name, kind] = _found(node, mark)

    def place_all(self) -> None:
        """Starts them on all nodes."""
        for node in self.cluster.nodes:
            self.place(node)

    def missing(self) -> list[str]:
        """Those that are gone."""
        return [f"{kind} on {node}" for (node, kind), process in self.known.items() if not process.alive]


def _found(node: Node, mark: str) -> Process:
    """The process with this mark, once it is what it shall be."""
    limit = time.monotonic() + START_LIMIT
    while time.monotonic() < limit:
        for each in processes(node):
            if each.has("BYSTANDER", mark) and each.words.endswith(f" {SECONDS}"):
                return Process.now(each.pid)
        time.sleep(0.02)
    raise ClusterError(f"{node.name}: its bystander {mark} did not start")
