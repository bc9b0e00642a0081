"""Who is who in /proc: known by pid, start time and boot, by descent or by mark, never by a name."""

import os
from collections import namedtuple

Stat = namedtuple("Stat", "pid state parent group session cpu_ticks start rss_pages")
"""What /proc/PID/stat says (proc(5)): `start` in clock ticks since boot, `cpu_ticks` user and system."""


_boot = []


def boot_id():
    """The kernel's random id of this boot; a pid means nothing after another one."""
    if not _boot:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                _boot.append(file.read().strip())
        except OSError:
            _boot.append("")
    return _boot[0]


def stat_of(pid):
    """The process's Stat, or None if there is no such process."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as file:
            data = file.read()
    except OSError:
        return None
    name_end = data.rfind(b")")  # the name may hold spaces and parentheses
    if name_end < 0:
        return None
    fields = data[name_end + 2 :].split()
    return Stat(
        pid,
        fields[0].decode("ascii"),
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        int(fields[11]) + int(fields[12]),
        int(fields[19]),
        int(fields[21]),
    )


def start_of(pid):
    """The process's start time in clock ticks since boot, 0 if it has gone."""
    found = stat_of(pid)
    return found.start if found else 0


def is_alive(pid, start, boot):
    """Whether exactly this process still runs: same boot, pid and start time, and no zombie."""
    if not pid or boot != boot_id():
        return False
    found = stat_of(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def signal_if_same(stat, number):
    """Signal a process if it is still the one that was seen."""
    if start_of(stat.pid) != stat.start:
        return
    try:
        os.kill(stat.pid, number)
    except OSError:
        pass


def command_of(pid):
    """The process's command line for a message, at most 200 characters."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
        if words == [b""]:
            with open("/proc/{}/comm".format(pid), "rb") as file:
                words = [b"[" + file.read().strip() + b"]"]
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace")[:200]


def environ_of(pid):
    """The process's environment as it was at its exec: `NAME=value` entries that end in NUL."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as file:
            return file.read()
    except OSError:
        return b""


def rank_of(pid):
    """The number of the rank that a process was forked by, as its environment has it; None if it has none."""
    found = [entry[5:] for entry in environ_of(pid).split(b"\0") if entry.startswith(b"RANK=")]
    return int(found[-1]) if found and found[-1].isdigit() else None


def swept(pid):
    """A process that outlived its rank, or was in no rank's group, as it is told."""
    return {"pid": pid, "cmd": command_of(pid), "rank": rank_of(pid)}


def left(pid):
    """A process that SIGKILL did not end, as it is told: with its state and where in the kernel it sleeps."""
    stat, where = stat_of(pid), ""
    try:
        with open("/proc/{}/wchan".format(pid)) as file:
            where = file.read(100).strip("0\n")
    except (OSError, ValueError):
        pass
    why = "state {}{}".format(stat.state, " in " + where if where else "") if stat else ""
    return {"pid": pid, "cmd": command_of(pid), "why": why}


def owned_by(uid):
    """Every process of this user as {pid: Stat}."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat("/proc/" + name).st_uid != uid:
                continue
        except OSError:
            continue
        stat = stat_of(int(name))
        if stat is not None:
            found[stat.pid] = stat
    return found


def below(roots, table):
    """The pids in `table` that descend from one of `roots`."""
    children = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    found = set()
    waiting = list(roots)
    while waiting:
        fresh = set(children.get(waiting.pop(), ())) - found
        found |= fresh
        waiting.extend(fresh)
    return found


def has_marks(pid, marks):
    """Whether the process's environment, as it was at its exec, holds all of these variables (bytes)."""
    environ = b"\0" + environ_of(pid)
    return all(b"\0" + name + b"=" + value + b"\0" in environ for name, value in marks.items())


def of_run(marks, supervisor, known=()):
    """The live processes of a run on this node: with its marks or known, and all that descend from one.

    Args:
        marks: the variables that each of them carries (bytes).
        supervisor: its pid, or 0 where none lives.
        known: {pid: start} of others that are the run's.

    Returns:
        {pid: Stat}; never the supervisor, the caller, the caller's ancestors, or a zombie.
    """
    table = owned_by(os.getuid())
    callers = ancestors(os.getpid(), table)
    ours = below([supervisor], table) if supervisor else set()
    ours.update(pid for pid in known if pid in table and table[pid].start == known[pid])
    ours.update(pid for pid in table if pid not in ours and has_marks(pid, marks))
    ours |= below(ours - callers, table)
    ours -= callers
    ours.discard(supervisor)
    return {pid: table[pid] for pid in ours if table[pid].state not in "ZX"}


def ancestors(pid, table):
    """The pid itself and those above it, as far as the table knows them."""
    found = set()
    while pid and pid not in found:
        found.add(pid)
        pid = table[pid].parent if pid in table else 0
    return found
