"""Ranks that a launcher may start again, and those whose numbers it deals out itself.

Such a launcher (torchrun with restarts) starts each of a node's local ranks once in each attempt. So the node
knows its ranks by their local numbers, and a local rank's third start is the third attempt, on every node:
all nodes take part in each of torchrun's rendezvous. A start is counted by a shell before anything else is
loaded, as torchrun may end it within a moment.
"""

import os

from .encoding import raw
from .run_folder import read_json

_COUNT = 'echo >>"$0/ranks/${}.starts"; exec "$@"'
"""torchrun leaves names that it does not know as they are."""


def is_seated(process):
    """Whether the process's ranks are known by their local numbers."""
    again = process.get("restarts") or not process.get("fixed_ranks", True)
    return bool(process["launcher"] and again)


def is_dealt(process):
    """Whether its ranks have numbers only once they run."""
    return bool(process["launcher"]) and not process.get("fixed_ranks", True)


def counting_words(folder, process):
    """What is put before the shim of such a process (bytes), to count its starts."""
    if not is_seated(process):
        return []
    return [b"sh", b"-c", raw(_COUNT.format(_local_name(process))), folder.path]


def attempt_of(folder, process, env):
    """Which attempt this start is, from 1; 0 where the process's ranks are started once."""
    if not is_seated(process):
        return 0
    local = env.get(raw(_local_name(process)), b"")
    try:
        return max(1, os.stat(os.path.join(folder.ranks, local + b".starts")).st_size)
    except OSError:
        return 1


def may_restart(process, env):
    """Whether the launcher would start this rank again if it failed now."""
    said = env.get(b"TORCHELASTIC_RESTART_COUNT", b"0")
    return is_seated(process) and said.isdigit() and int(said) < process.get("restarts", 0)


def newest_start(folder, seat):
    """The record of a seat's newest start (see `ranks/*.start.json`), or None."""
    found = []
    for name in os.listdir(folder.ranks):
        if name.endswith(b".start.json"):
            record = read_json(os.path.join(folder.ranks, name))
            if record is not None and _is_of(record, seat):
                found.append(record)
    return max(found, key=lambda record: record["attempt"], default=None)


def _is_of(record, seat):
    return record.get("attempt") and (record["process"], record["local_rank"]) == (
        seat.process,
        seat.local_rank,
    )


def _local_name(process):
    return (process.get("rank_from") or {}).get("local_rank") or "LOCAL_RANK"
