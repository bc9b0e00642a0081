"""What the node's kernel tells of a rank's end beside its status: the OOM killer, its log, /dev/shm.

Sources: Documentation/admin-guide/cgroup-v2.rst (memory.events), cgroup-v1/memory.rst (memory.oom_control),
Documentation/ABI/testing/dev-kmsg, mm/oom_kill.c, NVIDIA's Xid messages.
"""

import os
import re

from .run_folder import read_json

CGROUPS = "/sys/fs/cgroup"
KERNEL_LOG = "/dev/kmsg"
SHM = "/dev/shm"
MOST_LINES = 5
_MOST_RECORDS = 20000
_FIRST_PIDS = 0xEFFFFFFC
"""The inode of the namespace of the kernel's own pids: PROC_PID_INIT_INO, include/linux/proc_ns.h."""
_SLACK = 5.0
"""Seconds that a line may be older than the rank: its start is in clock ticks, the log's clock is another."""
_KILLED = re.compile(r"\bKilled process (\d+)\b")
_XID = re.compile(r"NVRM: Xid \([^)]*\): \d+(?:, pid='?(\d+|<unknown>)'?)?")
_FAULT = re.compile(r"^\S+\[(\d+)\]: segfault at |^traps: \S+\[(\d+)\] ")


def memory_events(cgroups=CGROUPS, of="/proc/self/cgroup"):
    """The counter of OOM kills in this process's cgroup.

    Returns:
        {file, oom_kills}; None where there is no such counter (v1 before Linux 4.13, no memory controller).
    """
    for path in _candidates(cgroups, of):
        count = oom_kills(path)
        if count is not None:
            return {"file": path, "oom_kills": count}
    return None


def _candidates(cgroups, of):
    try:
        with open(of) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except (OSError, ValueError):
        return
    for number, controllers, path in (line for line in lines if len(line) == 3):
        if "memory" in controllers.split(","):
            for inner in (path, "/"):  # in a container the path may be the host's
                yield "{}/memory{}/memory.oom_control".format(cgroups, inner.rstrip("/"))
        elif number == "0":
            for root in (cgroups, cgroups + "/unified"):
                for inner in (path, "/"):
                    yield "{}{}/memory.events".format(root, inner.rstrip("/"))


def oom_kills(path):
    """The number behind `oom_kill`, in memory.events as in memory.oom_control; None if there is none."""
    try:
        with open(path) as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    except (OSError, ValueError):
        pass
    return None


def of_end(folder, rank, signal_name):
    """What is to be seen of the end of a rank that nobody had asked to end.

    Args:
        folder: the RunFolder.
        rank: the Rank.
        signal_name: of the signal that ended it; None: it exited, or that is not known.

    Returns:
        `{seen: [{what: oom|kernel|shm|blind, text}]}`; empty if nothing is. `blind`: it was killed, and there
        is nothing here by which the OOM killer could have been seen.
    """
    seen = []
    record = read_json(folder.rank_file(rank.log, "start")) or {}
    memory = record.get("memory") or {}
    now = oom_kills(memory["file"]) if memory.get("file") else None
    if now is not None and now > memory["oom_kills"]:
        said = "{}: oom_kill {} -> {}".format(memory["file"], memory["oom_kills"], now)
        seen.append({"what": "oom", "text": said})
    seen += kernel_says(rank.pid, rank.start)
    if signal_name == "KILL" and now is None:
        why = kernel_log_hidden()
        if why:
            said = "no oom_kill counter in a control group of its own, and {}".format(why)
            seen.append({"what": "blind", "text": said})
    if signal_name == "BUS":
        seen += _shm()
    return {"seen": seen} if seen else {}


def kernel_log_hidden(path=KERNEL_LOG, namespace="/proc/self/ns/pid"):
    """Why the kernel's log tells nothing of this node's processes here; empty if it would."""
    try:
        if os.stat(namespace).st_ino != _FIRST_PIDS:
            return "the kernel's log has other pids than this container"
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return "{}: {}".format(error.filename, error.strerror)
    return ""


def kernel_says(pid, start, path=KERNEL_LOG):
    """The kernel log's lines about a process, as far as this user may read it."""
    if not pid:
        return []
    since = start / float(os.sysconf("SC_CLK_TCK")) - _SLACK
    found = []
    for moment, text in _kernel_log(path):
        if moment < since:
            continue
        what = _about(text, str(pid))
        if what:
            found.append({"what": what, "text": "kernel log [{:.3f}] {}".format(moment, text)})
    return found[-MOST_LINES:]


def _about(text, pid):
    killed, xid, fault = _KILLED.search(text), _XID.search(text), _FAULT.search(text)
    if killed and killed.group(1) == pid:
        return "oom"
    if xid and (xid.group(1) in (None, "<unknown>") or xid.group(1) == pid):
        return "kernel"
    return "kernel" if fault and pid in fault.groups() else None


def _kernel_log(path):
    """(seconds since boot, text) of each record; a pipe, device or file alike: each read is one record."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for _ in range(_MOST_RECORDS):
            try:
                data = os.read(fd, 8192)
            except BrokenPipeError:  # the oldest ones were overwritten meanwhile
                continue
            if not data:
                return
            for line in data.decode("utf-8", "replace").splitlines():
                head, found, text = line.partition(";")
                fields = head.split(",")
                if found and len(fields) >= 3 and fields[2].isdigit():
                    yield int(fields[2]) / 1e6, text
    except OSError:
        return  # all is read, or it may not be
    finally:
        os.close(fd)


def _shm():
    try:
        about = os.statvfs(SHM)
    except OSError:
        return []
    free, size = (blocks * about.f_frsize >> 20 for blocks in (about.f_bavail, about.f_blocks))
    return [{"what": "shm", "text": "{}: {} MiB of {} MiB free".format(SHM, free, size)}]
