"""The environment of the run's processes, as bytes from beginning to end."""

import os

from .encoding import raw, text

_DEEP = b"2"
"""SHLVL of a run's processes. At less, a `bash -c` takes itself for a login by ssh, reads ~/.bashrc, and
exports what was removed again (bash(1), INVOCATION; shell.c, `run_startup_files`)."""


def inherited():
    """The environment this agent was given, before its interpreter touched it.

    Python sets LC_CTYPE in itself where the locale is C (PEP 538); a rank must not inherit that.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            data = file.read()
    except OSError:
        return dict(os.environb)
    return parse(data)


def parse(data):
    """`NAME=value` entries that end in NUL, as {NAME: value}."""
    found = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            found[name] = value
    return found


def without(environment, names):
    """A copy that lacks these names (text)."""
    removed = {raw(name) for name in names}
    return {name: value for name, value in environment.items() if name not in removed}


def with_text(environment, values):
    """A copy with {text: text} on top."""
    changed = dict(environment)
    changed.update((raw(name), raw(value)) for name, value in values.items())
    return changed


def for_process(base, plan, process, secrets, directory):
    """What a process of the plan gets: the base, its own variables, the secrets and the run's mark.

    Args:
        base: the node's environment after removal and setup.
        plan: the node's plan.
        process: one of its processes.
        secrets: {NAME: value} that are never written anywhere.
        directory: the node-side run folder (bytes).
    """
    made = with_text(with_text(base, process["env"]), secrets)
    made.update(marks(plan, directory))
    made[b"SHLVL"] = _DEEP
    return made


def marks_of_folder(directory):
    """The same by the folder's path alone (.../RUN/NODE_RANK, as `start` makes it); None for another one."""
    parts = directory.rsplit(b"/", 2)
    if len(parts) != 3 or not parts[1] or not parts[2].isdigit():
        return None
    return marks({"run": text(parts[1]), "node_rank": int(parts[2])}, directory)


def marks(plan, directory):
    """The variables that every process of a run carries, whoever started it.

    Together they belong to no other run: neither to another node of this machine, nor to a run of the same
    name that was started from elsewhere.
    """
    return {
        b"RANKDECK_RUN_ID": raw(plan["run"]),
        b"RANKDECK_NODE": raw("{}/{}".format(plan["run"], plan["node_rank"])),
        b"RANKDECK_RANK_DIR": directory,
    }
