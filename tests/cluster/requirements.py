"""Whether a cluster can be made on this machine."""

from __future__ import annotations

import os
import shutil
import sys

from cluster.errors import ClusterError, tool

TOOLS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "nft": "nftables",
    "ssh-keygen": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
}
"""Tools and the Debian packages that bring them."""


def missing() -> str | None:
    """Why no cluster can be made here, in one sentence; None if it can."""
    if not sys.platform.startswith("linux"):
        return f"the test cluster needs Linux namespaces, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "the test cluster needs root (namespaces, mounts, virtual links)"
    absent = {package for name, package in TOOLS.items() if shutil.which(name) is None}
    if absent:
        return f"the test cluster needs packages that are not installed: {' '.join(sorted(absent))}"
    try:
        tool(
            [
                "unshare",
                "--net",
                "--uts",
                "--ipc",
                "--pid",
                "--mount",
                "--fork",
                "mount",
                "-t",
                "tmpfs",
                "x",
                "/mnt",
            ]
        )
    except ClusterError as error:
        return f"the test cluster needs Linux namespaces, which this machine does not allow ({error})"
    return None
