"""The text of a node's files (accounts, names, sshd, start-up files) and of the login side's SSH settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.options import NodeOptions

USER = "alice"
USER_ID = 2000
CLOCK, CLOCK_LIBRARY = "etc/rankdeck-clock", "etc/rankdeck-clock.so"
"""Where a node with the option ``clock`` has how far its wall clock is off (nanoseconds, in the machine's own
form), and what makes it so (clock.c)."""
NOISE = "printf 'Loading module cuda/13.0 ... done\\n\\033[31mquota: 93%%\\033[0m\\n\\377\\376 no newline'"
"""Text, an escape sequence, bytes that are not UTF-8, and an unfinished last line."""


def accounts(options: NodeOptions) -> dict[str, str]:
    """passwd, shadow and group: the machine's own, with root and alice as this cluster wants them."""

    def others(path: str) -> str:
        lines = Path(path).read_text().splitlines(keepends=True)
        return "".join(line for line in lines if line.split(":")[0] not in {"root", USER})

    return {
        "etc/passwd": f"root:x:0:0:root:/root:{options.shell}\n"
        f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:{options.shell}\n" + others("/etc/passwd"),
        # "*" is no password at all; "!" would be a locked account, which sshd refuses even with a key.
        "etc/shadow": f"root:*:19000:0:99999:7:::\n{USER}:*:19000:0:99999:7:::\n" + others("/etc/shadow"),
        "etc/group": f"root:x:0:\n{USER}:x:{USER_ID}:\n" + others("/etc/group"),
    }


def names(node: str, machine_id: str, hosts: Mapping[str, str], login: str) -> dict[str, str]:
    """Who the node is, and whom it knows; hosts is name -> address."""
    lines = ["127.0.0.1 localhost", f"{login} login", *(f"{at} {name}" for name, at in hosts.items())]
    return {
        "etc/hostname": f"{node}\n",
        "etc/machine-id": f"{machine_id}\n",
        "etc/hosts": "\n".join(lines) + "\n",
        "etc/resolv.conf": "",
        "etc/motd": "",
    }


def server(options: NodeOptions, public_key: str, environment: Mapping[str, str]) -> dict[str, str]:
    """sshd's settings; environment is given to every session."""
    lines = [
        "HostKey /etc/ssh/rankdeck_host_key",
        f"AuthorizedKeysFile {'none' if options.refuse_key else '/etc/ssh/rankdeck_keys'}",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        "PrintMotd no",
        "LogLevel VERBOSE",
        "PidFile /run/sshd.pid",
        "Subsystem sftp internal-sftp",
    ]
    if options.noise:
        lines.append("Banner /etc/issue.net")
    if options.clock:
        environment = {"LD_PRELOAD": f"/{CLOCK_LIBRARY}", **environment}
    if environment:
        lines.append("SetEnv " + " ".join(f"{name}={value}" for name, value in environment.items()))
    return {
        "etc/ssh/sshd_config": "\n".join(lines) + "\n",
        "etc/ssh/rankdeck_keys": public_key,
        "etc/issue.net": "*** Authorised use only. All activity is logged. ***\n",
    }


def start_up(options: NodeOptions) -> dict[str, str]:
    """Start-up files: sshrc is run by sshd itself before any shell, the others by bash, tcsh and fish."""
    made = {}
    if options.slow:
        made["etc/ssh/sshrc"] = f"sleep {options.slow}\n"
    if options.noise:
        for path in ("etc/bash.bashrc", "etc/csh.cshrc", "etc/fish/config.fish"):
            made[path] = f"{NOISE}\nsh -c 'echo warning: maintenance on Friday >&2'\n"
    return made


def ssh_config(folder: Path, hosts: Mapping[str, str]) -> str:
    """The login side's ssh_config; folder holds key and known_hosts, hosts is name -> address."""
    blocks = "".join(f"Host {name}\n    HostName {address}\n" for name, address in hosts.items())
    return f"""{blocks}
Host *
    User root
    IdentityFile {folder / "id_ed25519"}
    IdentitiesOnly yes
    UserKnownHostsFile {folder / "known_hosts"}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    LogLevel ERROR
"""
