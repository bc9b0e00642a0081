"""Who runs on a node, by /proc alone: nothing here asks rankdeck."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cluster.node import Node

PROGRAM = "chaos/rank.py"
"""What the command line of every rank holds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One process, with its pid as this machine sees it."""

    pid: int
    parent: int
    words: str
    environ: frozenset[bytes]

    def has(self, name: str, value: object) -> bool:
        """Whether it was started with this variable."""
        return f"{name}={value}".encode() in self.environ

    def __str__(self) -> str:
        marks = sorted(v.decode("latin-1") for v in self.environ if v.startswith((b"RANK", b"CHAOS")))
        return f"{self.pid} (parent {self.parent}) {self.words[:120]} {' '.join(marks)[:200]}"


def processes(node: Node) -> list[Seen]:
    """All processes of a node that run; a zombie does not."""
    if node.init is None or not node.init.alive:
        return []
    found = []
    for pid in map(int, (node.group.path / "cgroup.procs").read_text().split()):
        words = _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
        status = _read(pid, "stat").rpartition(b")")[2].split()
        if words and status:
            found.append(Seen(pid, int(status[1]), words, frozenset(_read(pid, "environ").split(b"\0"))))
    return found


def beside_the_system(node: Node) -> list[Seen]:
    """Those that are neither the node's own nor a bystander."""
    init = node.init
    return [
        each
        for each in processes(node)
        if init is not None
        and each.pid != init.pid
        and not each.words.startswith("sshd: /usr/sbin/sshd")
        and not (each.parent == init.pid and each.words == "sleep infinity")
        and not any(variable.startswith(b"BYSTANDER=") for variable in each.environ)
    ]


def of_run(node: Node, tag: str) -> list[Seen]:
    """Every process of a run that its ranks' own mark is on."""
    return [each for each in processes(node) if each.has("CHAOS", tag)]


def ranks(node: Node, tag: str) -> list[Seen]:
    """The programs of a run's ranks."""
    return [each for each in of_run(node, tag) if PROGRAM in each.words]


def above(node: Node, below: Iterable[Seen]) -> list[Seen]:
    """The parents of these processes but the node's first: of ranks the shims, of those the supervisor."""
    wanted = {each.parent for each in below}
    init = node.init.pid if node.init else 0
    return [each for each in processes(node) if each.pid in wanted and each.pid != init]


def sessions(node: Node) -> list[Seen]:
    """What lives below an SSH session: its server, its shell, the agent and what that has started."""
    everyone = {each.pid: each for each in processes(node)}

    def root(each: Seen) -> bool:
        while each.parent in everyone:
            if each.words.startswith("sshd: root"):
                return True
            each = everyone[each.parent]
        return False

    return [each for each in everyone.values() if root(each)]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
