"""One node: its folder on this machine, its first process, and commands in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster import files
from cluster.cgroups import NodeGroup
from cluster.errors import ClusterError, tool
from cluster.network import Network
from cluster.options import NodeOptions
from cluster.processes import Process

INIT = Path(__file__).with_name("node-init.sh")
CLOCK = Path(__file__).with_name("clock.c")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}
"""What commands in a node get; nothing of the test's own environment."""
START_LIMIT = 60.0
"""Seconds for a node to answer on port 22. It takes 0.2 s on an idle machine."""


@dataclass(eq=False)
class Node:
    """A node of a cluster. Made by Cluster; killed and booted by faults."""

    name: str
    address: str
    options: NodeOptions
    folder: Path
    shared: Path
    network: Network
    _parent: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def group(self) -> NodeGroup:
        """Its control group."""
        return NodeGroup.of(self.network.name, self.name)

    @property
    def host_key(self) -> Path:
        """Its private host key on this machine; the public one is beside it."""
        return self.folder / "host_key"

    @property
    def init(self) -> Process | None:
        """Its first process as this machine sees it; None before the first start."""
        place = self.folder / "init"
        return Process.read(place.read_text()) if place.exists() else None

    @property
    def state(self) -> str:
        """``up``, ``frozen`` or ``down``."""
        if self.init is None or not self.init.alive:
            return "down"
        return "frozen" if self.group.frozen else "up"

    def prepare(self, public_key: str, hosts: Mapping[str, str], binds: Iterable[Path]) -> None:
        """Writes all that the node's first process reads.

        Args:
            public_key: The key that root and alice let in.
            hosts: Name -> address of all nodes.
            binds: What the node sees read-only, at the same path.
        """
        self.folder.mkdir(parents=True)
        self.make_host_key()
        self.make_disk()
        made = {
            **files.accounts(self.options),
            **files.names(self.name, uuid.uuid4().hex, hosts, self.network.login_address),
            **files.server(self.options, public_key, {}),
            **files.start_up(self.options),
        }
        for path, text in made.items():
            place = self.folder / "files" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (self.folder / "files/etc/shadow").chmod(0o640)
        (self.folder / "binds").write_text("".join(f"{path}\n" for path in binds))
        hidden = ["/usr/bin/python*", "/usr/local/bin/python*"] if self.options.no_python else []
        (self.folder / "remove").write_text("".join(f"{pattern}\n" for pattern in hidden))
        if self.options.clock:
            (self.folder / "files" / files.CLOCK).write_bytes(bytes(8))
            library = self.folder / "files" / files.CLOCK_LIBRARY
            tool(["cc", "-shared", "-fPIC", "-O", "-o", str(library), str(CLOCK)])
        self.group.make()

    def make_host_key(self) -> None:
        """Makes a host key, in place of the one that may be there."""
        self.host_key.unlink(missing_ok=True)
        tool(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.host_key)])

    def make_disk(self) -> None:
        """Gives the node an empty disk."""
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        self.remove_disk()
        tool(["mount", "-t", "tmpfs", "-o", f"size={self.options.disk_mib}m,mode=755", "rankdeck", str(disk)])

    def remove_disk(self) -> None:
        """Unmounts the node's disk; what was on it is gone."""
        disk = self.folder / "disk"
        if disk.is_mount():
            tool(["umount", "-l", str(disk)])

    def start(self) -> None:
        """Boots it: a new boot id, and its first process. Returns at once; see wait_ready."""
        (self.folder / "init.pid").unlink(missing_ok=True)
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        key = self.folder / "files/etc/ssh/rankdeck_host_key"
        key.write_bytes(self.host_key.read_bytes())
        key.chmod(0o600)
        namespaces = [
            "--uts",
            "--ipc",
            "--pid",
            "--mount",
            "--propagation",
            "private",
            "--fork",
            "--kill-child",
        ]
        enter = ["nsenter", f"--net=/run/netns/{self.network.namespace(self.name)}", "unshare", *namespaces]
        init = ["sh", str(INIT), self.name, str(self.folder), str(self.shared), str(self.group.path)]
        with (self.folder / "console.log").open("wb") as console:
            self._parent = subprocess.Popen(
                [*enter, *init],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Waits until its SSH server answers.

        Raises:
            ClusterError: It did not within START_LIMIT, or the node died; with the end of its console.
        """
        limit = time.monotonic() + START_LIMIT
        while not self._answers():
            dead = self._parent is not None and self._parent.poll() is not None
            if dead or time.monotonic() > limit:
                console = (self.folder / "console.log").read_text(errors="replace")
                raise ClusterError(
                    f"{self.name} {'died' if dead else 'does not answer'}: {console[-2000:].strip()}"
                )
            time.sleep(0.02)
        init = Process.now(int((self.folder / "init.pid").read_text()))
        (self.folder / "init").write_text(str(init))

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1.0) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def kill(self) -> None:
        """Ends every process of the node at once, as a crash of its system would."""
        self.group.freeze(False)  # version 1 control groups don't let a frozen process die
        if self.init is not None:
            self.init.kill()
        if self._parent is not None:
            self._parent.kill()  # takes the first process along, had it not been known yet
            self._parent.wait(20)
            self._parent = None
        self.group.kill()

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        stdin: bytes = b"",
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in the node, not by SSH: works whatever its network does, but not while frozen.

        Args:
            argv: The command line; nothing is read by a shell.
            user: Whom it runs as.
            stdin: What it reads.
            timeout: Seconds before it is killed.
            check: Whether a status other than 0 is an error.

        Raises:
            ClusterError: The node is down, the command took too long, or it failed (with check).
        """
        if self.init is None or not self.init.alive:
            raise ClusterError(f"{self.name} is down: nothing can run in it")
        switch = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        enter = [
            "nsenter",
            "-t",
            str(self.init.pid),
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--mount",
            "--root",
            "--wd",
        ]
        join = ["sh", "-c", 'echo 0 >"$0"; exec "$@"', str(self.group.path / "cgroup.procs")]
        process = subprocess.Popen(
            [*join, *enter, *switch, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT if user == "root" else {**ENVIRONMENT, "HOME": f"/home/{user}", "USER": user},
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=20)
            raise ClusterError(f"{self.name}: {argv} took more than {timeout} s: {out!r} {err!r}") from error
        if check and process.returncode:
            raise ClusterError(
                f"{self.name}: {argv}: status {process.returncode}: {err.decode(errors='replace')}"
            )
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)
