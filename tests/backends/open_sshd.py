"""A real OpenSSH server on a loopback port, by and for the current user, with keys and a client config."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
KEYGEN = shutil.which("ssh-keygen")
START_LIMIT = 30.0


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair; returns the private key's path."""
    subprocess.run(
        [KEYGEN, "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)], check=True, timeout=60
    )
    return path


def run(*argv: str) -> str:
    """Run a command to its end, which must be a good one; returns what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (argv, done)
    return done.stdout


def fingerprint(key: Path) -> str:
    """The SHA256 fingerprint as OpenSSH shows it."""
    return run("ssh-keygen", "-lf", f"{key}.pub").split()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OpenSshd:
    """One server and everything a client needs to get in.

    The folder holds `ssh_config` with a host `node` for it, `known_hosts` and `id_client`, which is let in.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, host_key: str = "ed25519"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.home = folder / "home"
        self.home.mkdir()
        self.folder = folder
        self.port = free_port()
        self.host_key = make_key(folder / "host_key", host_key)
        self.client_key = make_key(folder / "id_client")
        self.authorized = folder / "authorized_keys"
        shutil.copy(folder / "id_client.pub", self.authorized)
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(self.known_line())
        self.ssh_config = folder / "ssh_config"
        self.write_config()
        self.settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def known_line(self, key: Path | None = None) -> str:
        return f"[127.0.0.1]:{self.port} {(key or self.host_key).with_suffix('.pub').read_text()}"

    def write_config(self, *extra: str, host: str = "node") -> None:
        """The client's config: the given lines first, since the first value of a setting counts."""
        lines = [
            f"Host {host}",
            *extra,
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"IdentityFile {self.client_key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile none",
        ]
        self.ssh_config.write_text("\n".join(lines) + "\n")

    def run_instead(self, script: str) -> None:
        """Run this sh script in place of what a client asks for, which is in SSH_ORIGINAL_COMMAND."""
        path = self.folder / "forced"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.settings["ForceCommand"] = str(path)

    def start(self) -> "OpenSshd":
        settings = {
            "ListenAddress": "127.0.0.1",
            "Port": str(self.port),
            "HostKey": str(self.host_key),
            "AuthorizedKeysFile": str(self.authorized),
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "UseDNS": "no",
            "PrintMotd": "no",
            # Its shells read the start-up files that a test puts there, not those of whoever runs the tests.
            "SetEnv": f"HOME={self.home} RANKDECK_NODE_DIR={self.folder / 'node'}",
            **self.settings,
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's privilege separation wants it
        log = (self.folder / "sshd.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            time.sleep(0.05)
        raise AssertionError(f"sshd did not start:\n{self.log()}")

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text(errors="replace")

    def sessions(self) -> list[int]:
        """Process ids of the server's children, one or two a connection."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [int(child) for child in children]

    def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._process is None:
            return
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.kill()
        self._process.wait(30)
        self._process = None
