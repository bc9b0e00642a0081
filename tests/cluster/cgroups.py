"""A control group for each node, which can stop all its processes at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The control group of one node: version 2 where it is mounted, else version 1's freezer."""

    path: Path

    @classmethod
    def of(cls, cluster: str, node: str) -> NodeGroup:
        """The group's place; nothing is made yet.

        Raises:
            ClusterError: No control groups are mounted.
        """
        mounts = Path("/sys/fs/cgroup")
        for root in (mounts, mounts / "unified", mounts / "freezer"):
            if (root / "cgroup.procs").exists():
                return cls(root / cluster / node)
        raise ClusterError(f"no control groups are mounted at {mounts}")

    def make(self) -> None:
        """Makes the group. A process joins by writing 0 to its ``cgroup.procs``."""
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def frozen(self) -> bool:
        """Whether its processes are stopped."""
        for name in ("cgroup.freeze", "freezer.state"):
            with contextlib.suppress(FileNotFoundError):
                return (self.path / name).read_text().strip() in {"1", "FROZEN", "FREEZING"}
        return False

    def freeze(self, frozen: bool) -> None:
        """Stops every process of the group, or lets them go on."""
        version_2 = self.path / "cgroup.freeze"
        if version_2.exists():
            version_2.write_text("1" if frozen else "0")
        elif self.path.exists():
            (self.path / "freezer.state").write_text("FROZEN" if frozen else "THAWED")

    def kill(self, timeout: float = 20.0) -> None:
        """Kills what is in the group and waits until it is empty.

        Raises:
            ClusterError: It isn't after the timeout, in seconds.
        """
        limit = time.monotonic() + timeout
        while pids := self._pids():
            if time.monotonic() > limit:
                raise ClusterError(f"processes {pids} in {self.path} do not die")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _pids(self) -> list[int]:
        try:
            return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]
        except (FileNotFoundError, OSError):
            return []

    def remove(self) -> None:
        """Removes the empty group, and the cluster's with the last of its nodes."""
        with contextlib.suppress(FileNotFoundError):
            self.path.rmdir()
        with contextlib.suppress(OSError):  # other nodes' groups are still in it
            self.path.parent.rmdir()
