"""Processes by pid and start time, so that a pid used again is never taken for the old process."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine."""

    pid: int
    start: str
    """Clock ticks since boot, field 22 of /proc/PID/stat (proc(5))."""

    @classmethod
    def now(cls, pid: int) -> Process:
        """The process that has this pid now.

        Raises:
            ClusterError: There is none.
        """
        state = _stat(pid)
        if state is None:
            raise ClusterError(f"process {pid} is gone")
        return cls(pid, state[19])

    @classmethod
    def read(cls, text: str) -> Process:
        """The opposite of str()."""
        pid, start = text.split()
        return cls(int(pid), start)

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        state = _stat(self.pid)
        return state is not None and state[19] == self.start and state[0] not in "ZX"

    def kill(self, timeout: float = 20.0) -> None:
        """Kills it and waits until it is gone.

        Raises:
            ClusterError: It is still there after the timeout, in seconds.
        """
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        limit = time.monotonic() + timeout
        while self.alive:
            if time.monotonic() > limit:
                raise ClusterError(f"process {self.pid} does not die")
            time.sleep(0.01)


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on: the second may hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
