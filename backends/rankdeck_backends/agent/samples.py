"""Load of the node and of each rank, from /proc; GPUs from nvidia-smi."""

import os
import time

from . import processes
from .gpus import GpuWatch
from .run_folder import RunFolder

_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 1048576.0
_SHARE = 50
"""A sample may take one fiftieth of the time between two: with 10,000 processes they come less often."""


class Sampler:
    """Makes a sample every so often for one follow."""

    def __init__(self, session, folder, plan, seconds):
        """Begin.

        Args:
            session: whose loop the GPU watch joins.
            folder: the RunFolder.
            plan: the node's plan.
            seconds: between two samples.
        """
        assert isinstance(folder, RunFolder)
        self._seconds = max(0.2, seconds)
        self._due = 0.0
        self._pids = {}
        self._cpu = None
        self._rank_ticks = {}
        self._at = None
        self._gpus = GpuWatch(session.loop, self._seconds)

    def hear(self, event):
        """Learn from an event which processes the ranks are."""
        if event["ev"] == "rank_started":
            self._pids[event["rank"]] = event["pid"]
        elif event["ev"] in ("rank_ended", "rank_unknown"):
            self._pids.pop(event["rank"], None)

    def poll(self, now, send):
        """Make a sample if it is time and call `send(sample)`."""
        if now < self._due:
            return
        sample = self._sample(now)
        took = time.monotonic() - now
        self._due = now + max(self._seconds, took * _SHARE)
        send(sample)

    def close(self):
        """End the GPU watch."""
        self._gpus.close()

    def _sample(self, now):
        total, used = memory_mib()
        gpus, note = self._gpus.latest(now)
        return {
            "t": round(time.time(), 3),
            "cpu": self._cpu_percent(),
            "load": load(),
            "mem_used_mib": used,
            "mem_total_mib": total,
            "ranks": self._ranks(now),
            "gpus": gpus,
            "gpu_note": note,
        }

    def _cpu_percent(self):
        """Percent of all CPUs since the last sample; None at the first."""
        before, self._cpu = self._cpu, cpu_ticks()
        if before is None or self._cpu is None or self._cpu[1] <= before[1]:
            return None
        busy = (self._cpu[0] - before[0]) / float(self._cpu[1] - before[1])
        return round(100.0 * min(1.0, max(0.0, busy)), 1)

    def _ranks(self, now):
        if not self._pids:
            return {}
        table = processes.owned_by(os.getuid())
        before, ticks_before = self._at, self._rank_ticks
        self._at, self._rank_ticks = now, {}
        found = {}
        for rank, pid in self._pids.items():
            pids = {pid} | processes.below([pid], table)
            stats = [table[member] for member in pids if member in table]
            if not stats:
                continue
            ticks = {(stat.pid, stat.start): stat.cpu_ticks for stat in stats}
            self._rank_ticks[rank] = ticks
            cpu = None
            if before is not None and rank in ticks_before:
                old = ticks_before[rank]
                spent = sum(value - old.get(key, 0) for key, value in ticks.items())
                cpu = round(max(0.0, 100.0 * spent / _TICKS / (now - before)), 1)
            rss = sum(stat.rss_pages for stat in stats) * _PAGE_MIB
            found[str(rank)] = {"cpu": cpu, "rss_mib": round(rss, 1)}
        return found


def cpu_ticks():
    """`(busy, total)` ticks of all CPUs since boot (proc(5), /proc/stat), or None."""
    try:
        with open("/proc/stat", "rb") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    total = sum(fields)
    return total - fields[3] - fields[4], total  # all but idle and iowait


def memory_mib():
    """`(total, used)` in MiB; used is what is not available to new programs. None where unknown."""
    found = {}
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                words = line.split()
                if words[0] in (b"MemTotal:", b"MemAvailable:"):
                    found[words[0]] = int(words[1]) // 1024
    except (OSError, ValueError):
        return None, None
    total, available = found.get(b"MemTotal:"), found.get(b"MemAvailable:")
    if total is None or available is None:
        return total, None
    return total, total - available


def load():
    """The load average of the last minute, or None."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
