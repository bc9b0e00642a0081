"""What can go wrong with a node, each fault with its cure.

``docs/test-cluster.md`` says what a client sees of each.
"""

from __future__ import annotations

import glob
import struct
from collections.abc import Callable
from dataclasses import dataclass

from cluster import files
from cluster.errors import ClusterError, tool
from cluster.node import Node

SSHD = "env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/sshd -E /run/sshd.log"
PUBLIC_KEY_PLACE = "/etc/ssh/rankdeck_keys"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by name."""

    strike: Callable[..., None]
    heal: Callable[[Node], None]


def cut(node: Node) -> None:
    """The cable is out: silence in both directions."""
    node.network.set_link(node.name, up=False)


def mend(node: Node) -> None:
    """The cable is in again."""
    node.network.set_link(node.name, up=True)


def freeze(node: Node) -> None:
    """Every process stops; the kernel still answers pings and completes TCP handshakes."""
    node.group.freeze(True)


def thaw(node: Node) -> None:
    """Every process goes on."""
    node.group.freeze(False)


def power(node: Node) -> None:
    """Power loss: silence, and every process is gone."""
    cut(node)
    node.kill()


def boot(node: Node, new_key: bool = False) -> None:
    """A restart: new boot id, same disk but for /tmp. With new_key, reinstalled: empty disk, new host key."""
    node.kill()
    if new_key:
        first = node.folder / "host_key.first"
        if not first.exists():
            first.write_bytes(node.host_key.read_bytes())
        node.make_host_key()
        node.make_disk()
    mend(node)
    node.start()
    node.wait_ready()


def boot_with_first_key(node: Node) -> None:
    """A restart with the host key that known_hosts knows."""
    first = node.folder / "host_key.first"
    if first.exists():
        node.host_key.write_bytes(first.read_bytes())
        first.unlink()
    boot(node)


def fill_disk(node: Node, leave_kib: int = 0) -> None:
    """The node's disk (all but /home, /run and /dev/shm) is full to the last byte, or to leave_kib."""
    node.run(["dd", "if=/dev/zero", "of=/filler", "bs=64K"], check=False)
    free = int(node.run(["stat", "-f", "-c", "%f", "/"]).stdout)
    if free:
        raise ClusterError(f"{node.name}: {free} blocks are still free on its disk")
    if leave_kib:
        node.run(["truncate", f"--size=-{int(leave_kib)}K", "/filler"])


def empty_disk(node: Node) -> None:
    """The disk has room again."""
    node.run(["rm", "-f", "/filler"])


def skew(node: Node, seconds: float = 300.0) -> None:
    """The wall clock of sessions opened from now on is off by some seconds; the monotonic clock is not."""
    library = sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))
    if not library:
        raise ClusterError("skew needs the package libfaketime")
    # By sshd's SetEnv, not /etc/ld.so.preload: there, sshd's own sandbox would kill it.
    _set_server(node, {"LD_PRELOAD": library[0], "FAKETIME": f"{seconds:+}s", "DONT_FAKE_MONOTONIC": "1"})


def jump(node: Node, seconds: float = 300.0) -> None:
    """The wall clock jumps by some seconds, also for processes that run; for nodes with the option clock."""
    if not node.options.clock:
        raise ClusterError(f"{node.name}: its clock can't jump: make it with the option clock")
    # In place: processes have it mapped.
    off = struct.pack("=q", int(seconds * 1e9))
    node.run(["dd", f"of=/{files.CLOCK}", "conv=notrunc", "status=none"], stdin=off)


def jump_back(node: Node) -> None:
    """The clock is right again, also for processes that run."""
    jump(node, 0.0)


def set_clock(node: Node) -> None:
    """The clock is right again, for new sessions."""
    _set_server(node, {})


def _set_server(node: Node, environment: dict[str, str]) -> None:
    text = files.server(node.options, "", environment)["etc/ssh/sshd_config"]
    # On HUP sshd closes its port, starts itself anew, listens, and then writes its pid file.
    script = "cat >/etc/ssh/sshd_config; pid=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $pid;"
    node.run(["sh", "-c", f"{script} until [ -s /run/sshd.pid ]; do sleep 0.05; done"], stdin=text.encode())
    node.wait_ready()


def refuse_key(node: Node) -> None:
    """The SSH server accepts no key any more; open connections go on."""
    node.run(["mv", PUBLIC_KEY_PLACE, f"{PUBLIC_KEY_PLACE}.away"])


def accept_key(node: Node) -> None:
    """Keys are accepted again."""
    node.run(["mv", f"{PUBLIC_KEY_PLACE}.away", PUBLIC_KEY_PLACE])


def reject(node: Node) -> None:
    """New connections to port 22 are refused, as by a firewall; open ones go on."""
    rules = (
        "add table ip refusal; add chain ip refusal incoming { type filter hook input priority -10; }; "
        "add rule ip refusal incoming tcp dport 22 tcp flags & (syn | ack) == syn reject with tcp reset"
    )
    tool(["ip", "netns", "exec", node.network.namespace(node.name), "nft", rules])


def accept(node: Node) -> None:
    """Port 22 is open again."""
    tool(["ip", "netns", "exec", node.network.namespace(node.name), "nft", "delete table ip refusal"])


def stop_sshd(node: Node) -> None:
    """The SSH server is not running; open connections go on."""
    script = "pid=$(cat /run/sshd.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done"
    node.run(["sh", "-c", script])


def start_sshd(node: Node) -> None:
    """The SSH server runs again."""
    node.run(["sh", "-c", SSHD])
    node.wait_ready()


FAULTS: dict[str, Fault] = {
    "cut": Fault(cut, mend),
    "freeze": Fault(freeze, thaw),
    "kill": Fault(Node.kill, boot),
    "power": Fault(power, boot),
    "boot": Fault(boot, boot_with_first_key),
    "full_disk": Fault(fill_disk, empty_disk),
    "skew": Fault(skew, set_clock),
    "jump": Fault(jump, jump_back),
    "refuse_key": Fault(refuse_key, accept_key),
    "reject": Fault(reject, accept),
    "no_sshd": Fault(stop_sshd, start_sshd),
}


def find(kind: str) -> Fault:
    """A fault by its name.

    Raises:
        ClusterError: There is none of that name; the message lists them.
    """
    try:
        return FAULTS[kind]
    except KeyError:
        raise ClusterError(f"no such fault: {kind!r}; there are {', '.join(FAULTS)}") from None
