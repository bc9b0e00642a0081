"""What earlier runs of this user have left on the node: processes with a run's marks that nobody guards."""

import json
import os

from . import environment, processes
from .encoding import text
from .limited import call
from .run_folder import RunFolder, read_json

LIMIT = 3.0
"""Seconds: who reads the environment of a process that hangs in the kernel may hang, too."""
MOST = 256


def of_runs():
    """`[{run, pid, cmd, ended}]`: at most MOST; none where they could not be looked at in time."""
    found = call(lambda: json.dumps(_look()[:MOST]).encode("ascii"), LIMIT)
    return json.loads(found.decode("ascii")) if found else []


def _look():
    table = processes.owned_by(os.getuid())
    states, found = {}, []
    for pid in sorted(set(table) - processes.ancestors(os.getpid(), table)):
        own = environment.parse(processes.environ_of(pid))
        folder = own.get(b"RANKDECK_RANK_DIR")
        if not folder or table[pid].state in "ZX":
            continue
        if folder not in states:
            states[folder] = read_json(RunFolder(folder).state)
        state = states[folder]  # None: gone, or of another container, which may well guard its processes
        if state and not processes.is_alive(
            state.get("pid", 0), state.get("start", 0), state.get("boot", "")
        ):
            told = {"run": text(own.get(b"RANKDECK_RUN_ID", b"")), "ended": bool(state.get("ended"))}
            found.append(dict(told, pid=pid, cmd=processes.command_of(pid)))
    return found
