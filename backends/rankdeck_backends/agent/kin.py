"""Which processes descend from the supervisor, written down for who comes after one that was killed.

An emptied environment has no marks, and descent ends where a parent does: what has left both behind is known
to the supervisor alone, which is the subreaper of all. So it keeps pids and start times in the run's folder.
"""

import os
import time

from . import processes
from .run_folder import read_json, write_json

PAUSE, WIDE_PAUSE = 1.0, 10.0
"""Seconds between looks at the supervisor's own children, where every orphan of the run comes to (one file to
read), and at all processes of the node (some milliseconds on one with thousands)."""


class Kin:
    """The run's processes on this node. Who is not of the run is looked at once, and never becomes so.

    Attributes:
        pids: {pid: start} as written down; without shims.
    """

    def __init__(self, folder):
        self._folder = folder
        self._known = {}
        self.pids = {}
        self._due = 0.0
        self._wide_due = time.monotonic() + WIDE_PAUSE

    def adopt(self, marks):
        """Take over from one that was killed: what it wrote down, what has the marks, and what is below."""
        self.pids = {pid: stat.start for pid, stat in of_run(self._folder, marks).items()}
        self._known = dict(self.pids)

    def look(self, now, shims, wide=False):
        """Write down who has come, if somebody has.

        Args:
            now: monotonic time.
            shims: their pids are left out: each ends by itself, behind its rank.
            wide: look at all processes, whether that is due or not.
        """
        if now < self._due and not wide:
            return
        self._due = now + PAUSE
        wide = wide or now >= self._wide_due
        here = _children() if not wide else [int(name) for name in os.listdir("/proc") if name.isdigit()]
        for pid in here:
            if pid not in self._known:
                self._known[pid] = self._start_if_ours(pid)
        if wide:
            self._wide_due = now + WIDE_PAUSE
            for pid in set(self._known).difference(here):
                del self._known[pid]
        ours = {pid: start for pid, start in self._known.items() if start and pid not in shims}
        if ours != self.pids:
            try:
                write_json(self._folder.kin, {"boot": processes.boot_id(), "pids": ours})
                self.pids = ours
            except OSError:
                pass  # a full disk: the next look tries again

    def _start_if_ours(self, pid):
        """When a process began that has one of ours above it; 0 for anybody else's."""
        found = above = processes.stat_of(pid)
        while above is not None and above.parent > 1:
            if above.parent == os.getpid() or self._known.get(above.parent):
                return found.start
            above = processes.stat_of(above.parent)
        return 0


def recorded(folder):
    """{pid: start} that a supervisor wrote down since the node was started."""
    value = read_json(folder.kin) or {}
    if value.get("boot") != processes.boot_id():
        return {}
    return {int(pid): start for pid, start in value["pids"].items()}


def of_run(folder, marks):
    """The run's live processes on this node, also those that a supervisor only wrote down: {pid: Stat}."""
    return processes.of_run(marks, 0, recorded(folder))


def _children():
    """The supervisor's own children; none where the kernel was built without that file."""
    try:
        with open("/proc/self/task/{0}/children".format(os.getpid())) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
