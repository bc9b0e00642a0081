"""Where the chaos takes place: a cluster, a user with a login side, bystanders, and faults of nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.bystanders import Bystanders
from chaos.schedule import LONG, Strike
from cluster import Cluster, NodeOptions
from whole.site import Site

CLOCK_NODE = "n2"
"""The node whose clock can jump."""
OPTIONS = {name: NodeOptions(disk_mib=64, clock=name == CLOCK_NODE) for name in ("n1", "n2", "n3", "n4")}
"""Small disks fill soon."""
LOGIN_DISK = "64m"
FAULTS = {"full disk": "full_disk", **{long: short for short, long in LONG.items()}}
"""The cluster's name of a fault, where it is another."""


@dataclass
class Field:
    """All of it."""

    site: Site
    bystanders: Bystanders

    @property
    def cluster(self) -> Cluster:
        return self.site.cluster

    @property
    def home(self) -> Path:
        """Where records are: a disk of its own."""
        return Path(self.site.shell.environment["RANKDECK_HOME"])

    def strike(self, strike: Strike) -> None:
        """Has a fault begin."""
        if strike.kind == "login disk":
            with suppress(OSError), (self.home / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(65536))
            return
        details = {"seconds": strike.seconds} if strike.kind == "jump" else {}
        self.cluster.fault(FAULTS.get(strike.kind, strike.kind), strike.node, **details)

    def heal(self, strike: Strike) -> None:
        """Takes it back."""
        if strike.kind == "login disk":
            (self.home / "filler").unlink()
            return
        self.cluster.heal(FAULTS.get(strike.kind, strike.kind), strike.node)
        if strike.kind in ("kill", "power"):
            self.bystanders.place(self.cluster.node(strike.node))


@contextmanager
def field(folder: Path) -> Iterator[Field]:
    """A new one, whose user's files are in an empty folder; all of it is gone afterwards."""
    with Cluster(4, OPTIONS) as cluster:
        site = Site.make(folder, cluster)
        home = Path(site.shell.environment["RANKDECK_HOME"])
        home.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={LOGIN_DISK},mode=700", "none", home],
            check=True,
            timeout=30,
        )
        try:
            made = Field(site, Bystanders(cluster))
            made.bystanders.place_all()
            yield made
        finally:
            site.shell.end()
            subprocess.run(["umount", "--lazy", home], check=True, timeout=30)
