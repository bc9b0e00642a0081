"""The cluster: nodes, their network, and the login side's files; made, found again, taken down."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cluster import faults, files
from cluster.errors import ClusterError, tool
from cluster.network import Network
from cluster.node import Node
from cluster.options import NodeOptions
from cluster.processes import Process

ROOT = Path("/run/rankdeck-cluster")
"""One folder for each cluster on this machine, named by its network's number."""
TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent


class Cluster:
    """Nodes n1, n2, ... that are gone when the ``with`` block or the process ends, however it ends."""

    nodes: list[Node]

    def __init__(
        self, count: int, options: Mapping[str, NodeOptions] | None = None, *, keep: bool = False
    ) -> None:
        """Describes a cluster; ``up()`` or ``with`` makes it.

        Args:
            count: Number of nodes, 1 to 64.
            options: Peculiarities of nodes by name.
            keep: Whether it outlives this process, until ``python -m cluster down``.

        Raises:
            ClusterError: The count is out of range, or an option is for a node that is not there.
        """
        if not 1 <= count <= 64:
            raise ClusterError(f"a cluster has 1 to 64 nodes, not {count}")
        self._options = {f"n{number}": NodeOptions() for number in range(1, count + 1)}
        for name, given in (options or {}).items():
            if name not in self._options:
                raise ClusterError(f"options for {name!r}, but the nodes are n1 to n{count}")
            self._options[name] = given
        self._keep = keep
        self._janitor: subprocess.Popen[bytes] | None = None
        self.nodes = []

    # -- where things are --

    @property
    def folder(self) -> Path:
        """All that the cluster keeps on this machine."""
        return ROOT / str(self.network.number)

    @property
    def shared(self) -> Path:
        """The shared file system: /home on every node, and this very path on nodes and on this machine."""
        return self.folder / "home"

    @property
    def login_home(self) -> Path:
        """A home folder for the login side: ``HOME=login_home`` gives programs its .ssh."""
        return self.folder / "login"

    @property
    def ssh_config(self) -> Path:
        """Settings for ``ssh -F``."""
        return self.login_home / ".ssh/config"

    @property
    def known_hosts(self) -> Path:
        """The nodes' host keys as they were at first."""
        return self.login_home / ".ssh/known_hosts"

    @property
    def identity(self) -> Path:
        """The private key that nodes accept for root and alice."""
        return self.login_home / ".ssh/id_ed25519"

    @property
    def pool(self) -> Path:
        """A pool file with all nodes."""
        return self.folder / "pool.toml"

    def node(self, name: str) -> Node:
        """A node by its name.

        Raises:
            ClusterError: There is none of that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise ClusterError(f"no node {name!r}; there are {', '.join(node.name for node in self.nodes)}")

    # -- making it --

    def __enter__(self) -> Cluster:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> None:
        """Makes the cluster and waits until every SSH server answers; first sweeps up after dead processes.

        Raises:
            ClusterError: It could not be made; nothing is left of it.
        """
        sweep()
        with _lock():
            self.network = Network.claim()
            self.folder.mkdir()
            owner = None if self._keep else str(Process.now(os.getpid()))
            described = {name: dataclasses.asdict(option) for name, option in self._options.items()}
            (self.folder / "state.json").write_text(json.dumps({"owner": owner, "nodes": described}))
        try:
            if not self._keep:
                self._janitor = _start_janitor(self.network.number)
            self._make_nodes()
            self.network.up(list(self._options))
            self._write_login_side()
            binds = _binds()
            for node in self.nodes:
                hosts = {each.name: each.address for each in self.nodes}
                seen = (
                    [path for path in binds if path != Path(sys.base_prefix)]
                    if node.options.no_python
                    else binds
                )
                node.prepare(self.identity.with_suffix(".pub").read_text(), hosts, seen)
            self._write_known_hosts()
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                node.wait_ready()
        except BaseException:
            self.down()
            raise

    @classmethod
    def load(cls, number: int) -> Cluster:
        """A cluster that is up, made by this or another process.

        Raises:
            ClusterError: There is none of that number.
        """
        described = _state(number)["nodes"]
        cluster = cls(
            len(described),
            {name: NodeOptions.of_state(options) for name, options in described.items()},
            keep=True,
        )
        cluster.network = Network(number)
        cluster._make_nodes()
        return cluster

    def _make_nodes(self) -> None:
        for index, (name, options) in enumerate(self._options.items()):
            address = self.network.address(index)
            self.nodes.append(
                Node(name, address, options, self.folder / "nodes" / name, self.shared, self.network)
            )

    def _write_login_side(self) -> None:
        home = self.shared / files.USER
        home.mkdir(parents=True)
        os.chown(home, files.USER_ID, files.USER_ID)
        self.ssh_config.parent.mkdir(parents=True, mode=0o700)
        tool(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "login", "-f", str(self.identity)])
        hosts = {node.name: node.address for node in self.nodes}
        self.ssh_config.write_text(files.ssh_config(self.ssh_config.parent, hosts))
        last = len(self.nodes)
        self.pool.write_text(
            f'backend = "ssh"\nnodes = ["{f"n[1-{last}]" if last > 1 else "n1"}"]\nslots = 2\n'
        )

    def _write_known_hosts(self) -> None:
        def line(node: Node) -> str:
            key = " ".join(node.host_key.with_suffix(".pub").read_text().split()[:2])
            return f"{node.name},{node.address} {key}\n"

        self.known_hosts.write_text("".join(map(line, self.nodes)))

    # -- using it --

    def run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        stdin: bytes = b"",
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in a node, not by SSH; see Node.run."""
        return self.node(node).run(argv, user=user, stdin=stdin, timeout=timeout, check=check)

    def fault(self, kind: str, node: str, **details: float) -> None:
        """Strikes a node with one of faults.FAULTS.

        Args:
            kind: The fault's name.
            node: The node's name.
            details: The fault's own: ``new_key``, ``seconds``, ``leave_kib``.

        Raises:
            ClusterError: No such fault or node, or it could not be done.
        """
        faults.find(kind).strike(self.node(node), **details)

    def heal(self, kind: str, node: str) -> None:
        """Takes a fault back."""
        faults.find(kind).heal(self.node(node))

    # -- taking it down --

    def down(self) -> None:
        """Ends every process of every node and removes all of the cluster; again is no error."""
        with _lock():
            for node in self.nodes:
                node.kill()
                node.group.remove()
                node.remove_disk()
            self.network.down()
            if self.folder.exists():
                shutil.rmtree(self.folder)
        if self._janitor is not None:
            self._janitor.kill()
            self._janitor.wait(20)
            self._janitor = None


def sweep() -> list[int]:
    """Takes down clusters whose process is gone, and returns their numbers."""
    swept = []
    with _lock():
        dead = [number for number in running() if _is_abandoned(number)]
        links = re.findall(r": rdtest(\d+)@", tool(["ip", "-o", "link", "show", "type", "veth"]))
        for number in links:
            if not (ROOT / number).exists():  # its process died between making the link and the folder
                Network(int(number)).down()
    for number in dead:
        with contextlib.suppress(ClusterError):  # its own process took it down meanwhile
            Cluster.load(number).down()
            swept.append(number)
    return swept


def running() -> list[int]:
    """Numbers of all clusters on this machine, lowest first."""
    return sorted(int(place.parent.name) for place in ROOT.glob("*/state.json"))


def _state(number: int) -> dict[str, Any]:
    """What a cluster left about itself: `owner` and `nodes`. Another checkout of this code may have made it.

    Raises:
        ClusterError: There is none of that number, or its file is not like ours.
    """
    place = ROOT / str(number) / "state.json"
    try:
        state = json.loads(place.read_text())
    except FileNotFoundError:
        raise ClusterError(f"no cluster {number} is up (looked for {place})") from None
    except ValueError as error:
        raise ClusterError(f"cluster {number}: {place} is no JSON: {error}") from None
    nodes = state.get("nodes") if isinstance(state, dict) else None
    if not isinstance(nodes, dict) or not all(isinstance(each, dict) for each in nodes.values()):
        raise ClusterError(f"cluster {number}: {place} lists no nodes; another version of this code made it")
    return {"owner": state.get("owner"), "nodes": nodes}


def _is_abandoned(number: int) -> bool:
    try:
        owner = _state(number)["owner"]
    except ClusterError:
        return False  # whoever made it knows
    return owner is not None and not Process.read(owner).alive


def _binds() -> list[Path]:
    """What nodes see read-only at the same path: this repository, and the Python in use."""
    chosen: list[Path] = []
    for path in (REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)):
        if not any(path.is_relative_to(other) for other in [*chosen, Path("/usr")]):
            chosen.append(path)
    return chosen


def _start_janitor(number: int) -> subprocess.Popen[bytes]:
    """A process that waits for this one's end, even by SIGKILL, and takes the cluster down then."""
    return subprocess.Popen(
        ["sh", "-c", 'cat >/dev/null; exec "$0" -m cluster down "$1"', sys.executable, str(number)],
        stdin=subprocess.PIPE,  # nobody writes: it ends when this process does
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=TESTS,
        start_new_session=True,
    )


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Held while clusters are claimed or taken down, by one process at a time."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
