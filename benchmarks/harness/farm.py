"""Many nodes on this machine: an SSH server each on its own loopback address, and a narrow one in front.

The whole of 127.0.0.0/8 is this machine (RFC 1122, section 3.2.1.3), so nothing needs root. Every node has
the same port and a host key of its own, and OpenSSH's defaults else.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import measure

from harness import sshd

NARROW = "10:30:100"
"""OpenSSH's default MaxStartups (sshd_config(5)): from the tenth unfinished login on some are dropped."""
_DROPPED = "past MaxStartups"
"""What sshd's log says of each, from LogLevel VERBOSE on."""


@dataclass(frozen=True, slots=True)
class Farm:
    """Running nodes, and the ssh configs (`ssh -F`) that lead to them in several ways."""

    names: tuple[str, ...]
    """The nodes' addresses."""
    direct: Path
    """Straight to each node."""
    kept: Path
    """The same with a ControlMaster for each, which stays for ten minutes."""
    bastion: Path
    """By way of the narrow server as jump host."""
    one: Path
    """Every name leads to the narrow server itself."""
    key: Path
    """The user's private key."""
    port: int
    log: Path
    """The narrow server's."""

    def dropped(self) -> int:
        """Connections that the narrow server has refused so far."""
        return self.log.read_text(errors="replace").count(_DROPPED)

    def close_masters(self) -> None:
        """End what keeps connections open."""
        for name in self.names:
            command = ["ssh", "-F", str(self.kept), "-O", "exit", name]
            subprocess.run(command, capture_output=True, check=False, timeout=60)


@contextmanager
def serve(folder: Path, count: int) -> Iterator[Farm]:
    """Start `count` nodes and the narrow server; everything they need and leave is in `folder`."""
    path = sshd.prepare(folder)
    port = sshd.free_port()
    names = tuple(f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(count))
    (folder / "sshd_config").write_text(f"Port {port}\n{sshd.settings(folder)}")
    known = []
    with ExitStack() as stack:
        for name in (sshd.ADDRESS, *names):
            key = folder / f"host-{name}"
            sshd.make_key(key)
            known.append(f"[{name}]:{port} {key.with_name(key.name + '.pub').read_text()}")
            narrow = ["-o", f"MaxStartups={NARROW}", "-o", "LogLevel=VERBOSE"] if name == sshd.ADDRESS else []
            command = [path, "-D", "-e", "-f", str(folder / "sshd_config"), "-h", str(key), *narrow]
            log = folder / f"log-{name}"
            process = _start(stack, [*command, "-o", f"ListenAddress={name}"], log)
            measure.wait_for(
                f"an answer of {name}",
                lambda name=name, process=process, log=log: sshd.answers(name, port, process, log),
            )
        (folder / "known_hosts").write_text("".join(known))
        farm = _configs(folder, port, names)
        stack.callback(farm.close_masters)
        yield farm


def _start(stack: ExitStack, command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output, start_new_session=True)

    def end() -> None:
        process.terminate()
        process.wait(10)

    stack.callback(end)
    return process


def _configs(folder: Path, port: int, names: tuple[str, ...]) -> Farm:
    base = sshd.client_settings(folder, port)
    masters = f"ControlMaster auto\nControlPath {folder}/m-%h\nControlPersist 600\n"
    texts = {
        "direct": base,
        "kept": base + masters,
        "bastion": f"Host 127.0.?.* !{sshd.ADDRESS}\nProxyJump {sshd.ADDRESS}\n{base}",
        "one": f"Host 127.0.?.*\nHostName {sshd.ADDRESS}\n{base}",
    }
    files = {way: folder / f"config-{way}" for way in texts}
    for way, text in texts.items():
        files[way].write_text(text)
    return Farm(names, **files, key=folder / "user", port=port, log=folder / f"log-{sshd.ADDRESS}")
