"""What people run one command on many nodes with, each as it comes; and how long each answer takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from harness.farm import Farm

COMMAND = ("echo", "up")
CURVE = ("-o", "KexAlgorithms=curve25519-sha256")
"""The default before OpenSSH 9.0: the post-quantum one since then takes several times the CPU."""
PARALLEL = "32"
"""xargs has no default; pdsh and the command parallel-ssh have this one."""
LIMIT = 600.0


@dataclass(slots=True)
class Took:
    """One fan-out."""

    seconds: list[float]
    """Until each answer."""
    cpu: float
    """CPU seconds of the client, what it has started included."""
    problems: list[str] = field(default_factory=list)

    @property
    def first(self) -> float:
        """Seconds to the first answer."""
        return min(self.seconds, default=float("inf"))

    @property
    def last(self) -> float:
        """Seconds to the last answer."""
        return max(self.seconds, default=float("inf"))


@dataclass(frozen=True, slots=True)
class Peer:
    """A way to run a command on many nodes.

    Attributes:
        name: for the table.
        package: Debian's (PyPI's), told where it is not installed.
        there: whether it is installed.
        command: its argv for an ssh config, nodes, and further options of ssh.
        listed: whether the nodes go to its standard input.
    """

    name: str
    package: str
    there: Callable[[], bool]
    command: Callable[[Path, Sequence[str], Sequence[str]], list[str]]
    listed: bool = False

    def run(self, config: Path, names: Sequence[str], options: Sequence[str] = ()) -> Took:
        """Run the command on these nodes."""
        argv = self.command(config, names, options)
        environment = os.environ | {"PDSH_SSH_ARGS_APPEND": " ".join(["-F", str(config), *options])}
        began = time.monotonic()
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if self.listed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        complaints: list[str] = []
        reader = threading.Thread(target=complaints.extend, args=(process.stderr,))
        reader.start()
        if process.stdin is not None:
            process.stdin.write("".join(f"{name}\n" for name in names))
            process.stdin.close()
        # Only the lines that the nodes' `echo` has printed count, whatever is put in front of them.
        seconds = [time.monotonic() - began for line in process.stdout if line.split()[-1:] == ["up"]]
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        reader.join(10)
        process.stdout.close()
        process.stderr.close()
        return Took(seconds, used.ru_utime + used.ru_stime, [line.strip() for line in complaints])


def _clush(config: Path, names: Sequence[str], options: Sequence[str]) -> list[str]:
    return ["clush", "-w", ",".join(names), "-o", " ".join(["-F", str(config), *options]), *COMMAND]


def _pdsh(config: Path, names: Sequence[str], options: Sequence[str]) -> list[str]:
    return ["pdsh", "-R", "ssh", "-w", ",".join(names), *COMMAND]


def _parallel_ssh(config: Path, names: Sequence[str], options: Sequence[str]) -> list[str]:
    hosts = [word for name in names for word in ("-H", name)]
    extra = [word for option in ("-F", str(config), *options) for word in ("-X", option)]
    return ["parallel-ssh", "-i", *hosts, *extra, *COMMAND]


def _xargs(config: Path, names: Sequence[str], options: Sequence[str]) -> list[str]:
    return ["xargs", "-P", PARALLEL, "-I{}", "ssh", "-n", "-F", str(config), *options, "{}", *COMMAND]


def _has(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program) is not None


XARGS = Peer(f"xargs -P{PARALLEL} ssh", "openssh-client", _has("ssh"), _xargs, listed=True)
PEERS = (
    Peer("clush", "clustershell", _has("clush"), _clush),
    Peer("pdsh", "pdsh", _has("pdsh"), _pdsh),
    Peer("parallel-ssh", "pssh", _has("parallel-ssh"), _parallel_ssh),
    XARGS,
)


def library_is_there() -> bool:
    """Whether the library parallel-ssh, which has no command, can be imported here."""
    return find_spec("pssh") is not None


def library_command(python: str, farm: Farm) -> list[str]:
    """What runs it; the nodes' names follow."""
    script = Path(__file__).with_name("fanout_library.py")
    return [python, str(script), str(farm.port), str(farm.key)]
