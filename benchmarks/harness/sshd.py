"""An OpenSSH server of our own on the loopback interface: own port, own keys, the user's files left alone."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import measure

ADDRESS = "127.0.0.1"
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""sshd started by root insists on it; a system's start makes it, a container's may not."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    port: int
    config: Path
    """The ssh config that gets there: `ssh -F config 127.0.0.1`."""

    def ssh(self, *command: str) -> list[str]:
        """The command line that runs a command there."""
        return ["ssh", "-F", str(self.config), ADDRESS, *command]


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Start it; everything it needs and leaves is in `folder`.

    Whoever logs in has `folder`/home as home: no start-up file of the user's takes part. Ciphers and key
    exchange are OpenSSH's defaults on both sides.
    """
    path = prepare(folder)
    make_key(folder / "host")
    port = free_port()
    text = f"Port {port}\nListenAddress {ADDRESS}\nHostKey {folder}/host\nMaxStartups 200\n"
    (folder / "sshd_config").write_text(text + settings(folder))
    (folder / "known_hosts").write_text(f"[{ADDRESS}]:{port} {(folder / 'host.pub').read_text()}")
    config = folder / "ssh_config"
    config.write_text(client_settings(folder, port))
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            [path, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    server = Server(process.pid, port, config)
    try:
        measure.wait_for("an answer of sshd", lambda: answers(ADDRESS, port, process, folder / "sshd.log"))
        yield server
    finally:
        process.terminate()
        process.wait(10)


def prepare(folder: Path) -> str:
    """Make what every server and client needs in `folder`: the user's key, a home.

    Returns:
        sshd's path.

    Raises:
        SystemExit: there is none.
    """
    path = shutil.which("sshd") or "/usr/sbin/sshd"
    if not os.access(path, os.X_OK):
        raise SystemExit(f"{path} is not there: an OpenSSH server is needed (Debian: openssh-server)")
    if os.getuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    (folder / "home").mkdir()
    make_key(folder / "user")
    return path


def make_key(path: Path) -> None:
    """A new ed25519 key pair without a passphrase."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def settings(folder: Path) -> str:
    """A server's settings beside address, port, host key and MaxStartups."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = {"HOME": folder / "home", "PATH": path, "RANKDECK_NODE_DIR": folder / "node"}
    set_env = " ".join(f'"{name}={value}"' for name, value in environment.items())
    return f"""AuthorizedKeysFile {folder}/user.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PrintMotd no
PidFile none
SetEnv {set_env}
"""


def client_settings(folder: Path, port: int) -> str:
    """The client's: the key made by `prepare`, and known_hosts in the same folder."""
    return f"""Host *
Port {port}
User {getpass.getuser()}
IdentityFile {folder}/user
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
"""


def free_port() -> int:
    """A port that is free on the loopback address now."""
    with socket.socket() as sock:
        sock.bind((ADDRESS, 0))
        port: int = sock.getsockname()[1]
        return port


def answers(address: str, port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the server that was started speaks SSH by now.

    Raises:
        SystemExit: it has ended.
    """
    if process.poll() is not None:
        raise SystemExit(f"sshd ended with status {process.returncode}: {log.read_text()[-2000:]}")
    try:
        with socket.create_connection((address, port), timeout=1.0) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
