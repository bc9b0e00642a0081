"""A user with a cluster: `rankdeck` with the user's files on the login side, and what is on the nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.user import Shell, environment
from cluster import Cluster

TESTS = Path(__file__).parents[1]
RING = TESTS / "ranks/socket_ring.py"
DDP = TESTS.parent / "examples/ddp.py"
LIMIT = 180.0
"""Seconds that a test waits for anything but a training: eight ranks share what may be two busy cores."""
TRAINING_LIMIT = 480.0
"""Seconds for eight ranks that import torch."""


@dataclass
class Site:
    """A user on the login side of a cluster."""

    shell: Shell
    cluster: Cluster

    @classmethod
    def make(cls, folder: Path, cluster: Cluster) -> Site:
        """A new user with an empty home, whose ssh_config is the cluster's.

        Args:
            folder: empty; gets all of the user's files.
            cluster: is up.
        """
        (folder / "home").mkdir()
        variables = {**environment(folder), "RANKDECK_SSH_CONFIG": str(cluster.ssh_config)}
        del variables["RANKDECK_NODE_DIR"]
        site = cls(Shell(folder, variables), cluster)
        site.shell.write("config/pools/lab.toml", cluster.pool.read_text())
        return site

    def key_between_nodes(self) -> str:
        """Arguments of the ssh by which mpirun logs in from node to node, which have no key of their own.

        Returns:
            One text, for `options.ssh_args`.
        """
        key = self.cluster.shared / "key-between-nodes"
        shutil.copy(self.cluster.identity, key)
        return f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

    @property
    def copies(self) -> Path:
        """Where ranks write their own copies of what they write to standard output, seen by all nodes."""
        return self.cluster.shared / "copies" / self.shell.folder.name

    def save(self, name: str, script: Path | str | None, *args: str, **keys: object) -> Path:
        """Saves a profile that runs a script from this repository (or `command`) on the pool `lab`."""
        values = {
            "framework": "pytorch",
            "script": script and str(script),
            "workdir": str(self.cluster.shared),
            "python": sys.executable,
            "args": list(args),
            "pool": "lab",
            **keys,
        }
        values = {key: value for key, value in values.items() if value is not None}
        tables = {key: value for key, value in values.items() if isinstance(value, dict)}
        lines = [f"{key} = {_toml(value)}\n" for key, value in values.items() if key not in tables]
        for table, entries in tables.items():
            lines += [f"[{table}]\n", *(f"{key} = {_toml(value)}\n" for key, value in entries.items())]
        return self.shell.write(f"config/profiles/{name}.toml", "".join(lines))

    def save_ring(self, name: str, *args: str, **keys: object) -> Path:
        """Saves a profile whose ranks sum numbers over sockets, without torch, and copy their output."""
        return self.save(name, RING, *args, "--own-copy", str(self.copies), **keys)

    def follow(self, *arguments: str, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """Types a command that may take long, and waits for its end, whatever its exit status."""
        process = self.shell.start(*arguments)
        out, err = process.communicate(timeout=limit)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def show(self, run: str = "last") -> Any:
        """What `rankdeck show --json` says."""
        return self.shell.json("show", run)

    def raw(self, rank: int, stream: str = "out", run: str = "last") -> bytes:
        """What `rankdeck logs --raw` says."""
        done = self.shell("logs", run, "--rank", str(rank), "--stream", stream, "--raw")
        return done.stdout.encode("utf-8", "surrogateescape")

    def copy(self, rank: int) -> bytes:
        """What a rank says it wrote."""
        return (self.copies / f"rank-{rank:05d}.copy").read_bytes()

    def assert_every_byte(self, ranks: int, run: str = "last") -> None:
        """Asserts that the record holds of every rank exactly what it wrote."""
        for rank in range(ranks):
            assert self.raw(rank, run=run) == self.copy(rank), f"rank {rank}"

    # -- the nodes --

    def processes(self) -> dict[str, list[str]]:
        """Node -> what runs on it beside its first process and its SSH server's listener."""
        return {
            node.name: _beside_the_system(node.group.path, node.init.pid)
            for node in self.cluster.nodes
            if node.init is not None and node.init.alive
        }

    def assert_nothing_runs(self, seconds: float = 30.0) -> None:
        """Asserts that no node has a process but its system's own, nor the login side one of this user's.

        It waits: sessions need a moment to notice that their command has ended, and so does tmux.
        """

        def left() -> dict[str, list[str]]:
            return {place: words for place, words in self._everywhere().items() if words}

        try:
            self.shell.wait_for("nothing is left", lambda: not left(), seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {left()}") from None

    def _everywhere(self) -> dict[str, list[str]]:
        return {**self.processes(), "login side": self.of_login_side()}

    def of_login_side(self) -> list[str]:
        """Processes on this machine that have this user's files in their environment."""
        mark = f"RANKDECK_HOME={self.shell.environment['RANKDECK_HOME']}".encode()
        return [words for pid in _pids() if mark in _environ(pid).split(b"\0") and (words := _words(pid))]


def _toml(value: object) -> str:
    # As JSON, but for what JSON would write as two halves of one character.
    return json.dumps(value, ensure_ascii=False)


def _beside_the_system(group: Path, init: int) -> list[str]:
    found = []
    for pid in map(int, (group / "cgroup.procs").read_text().split()):
        words = _words(pid)
        system = (
            pid == init
            or words.startswith("sshd: /usr/sbin/sshd")
            or (_parent(pid) == init and words.startswith("sleep "))
        )
        if words and not system:
            found.append(f"{pid}: {words}")
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _environ(pid: int) -> bytes:
    return _read(pid, "environ")


def _words(pid: int) -> str:
    """The command line; empty for a process that is gone, and for a zombie."""
    return _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()


def _parent(pid: int) -> int:
    status = _read(pid, "stat").rpartition(b")")[2].split()
    return int(status[1]) if status else 0
