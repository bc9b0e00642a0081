"""An mpirun that starts the ranks of all nodes: the plan, and the words between it and a rank.

mpirun runs the same words on every node. They look for the run's folder there, and run the `join` script that
lies in it: interpreter and folder are each node's own.
"""

import os
import shlex
import sys

from .encoding import raw, text
from .errors import AgentError
from .requests import field
from .run_folder import write_private

MPIRUN, JOINED = "mpirun", "joined"
JOIN_LIMIT = 900.0
"""Seconds for all ranks of a node to register: the head's setup lines may take 600."""

_FIND = (
    'for d in "$RANKDECK_NODE_DIR" "/var/tmp/rankdeck-$(id -u)" "/tmp/rankdeck-$(id -u)"'
    ' "/dev/shm/rankdeck-$(id -u)" "$2"; do for j in "$d/runs/$1"/*/join; do'
    ' [ -O "$j" ] && exec sh "$j" "$d/runs/$1"; done; done;'
    ' echo "rankdeck: no folder of run $1 on $(uname -n): mpirun has started a rank on a machine that the'
    ' plan does not name, or RANKDECK_NODE_DIR is not the same in all logins" >&2; exit 127'
)
"""Arguments: the run's id, the head's node folder. A script that is not ours (`-O`) is never run."""


def is_mpirun(process):
    """Whether this process starts the ranks of all nodes."""
    return process.get("kind") == MPIRUN


def is_joined(process):
    """Whether it stands for the ranks that another node's mpirun starts here."""
    return process.get("kind") == JOINED


def settle(plan):
    """Let the plan say of this node's ranks alone, as it does for any other launcher.

    The head's process of kind `mpirun` lists the ranks of all nodes; another node has `joins` instead of a
    process, and gets one of kind `joined`.

    Raises:
        AgentError: the plan contradicts itself.
    """
    where = dict(plan, op="start: plan")
    starters = [process for process in plan["processes"] if is_mpirun(process)]
    joins = field(where, "joins", dict, {})
    if not starters and not joins:
        return
    if len(plan["processes"]) > 1 or (joins and plan["processes"]):
        raise AgentError("bad_request", "start: beside an mpirun a plan has no other process")
    ranks = _own_ranks(plan)
    plan["rank_env"] = field(where, "rank_env", dict, {})
    plan["rank_cwd"] = field(where, "rank_cwd", str, "~")
    plan["join_limit"] = field(where, "join_limit", float, JOIN_LIMIT)
    process = starters[0] if starters else dict(joins, kind=JOINED, launcher=[], env={}, files={})
    inner = dict(process, op="start: mpirun")
    field(inner, "program", list)
    source = field(inner, "rank_from", dict)
    for name in ("rank", "world_size"):
        field(dict(source, op="start: rank_from"), name, str)
    process.setdefault("fill", False)
    process.setdefault("cwd", plan["rank_cwd"])
    process["ranks"], process["local_ranks"] = ranks, list(range(len(ranks)))
    plan["processes"] = [process]


def _own_ranks(plan):
    for node in field(dict(plan, op="start: plan"), "world", list):
        if node["node_rank"] == plan["node_rank"]:
            return list(node["ranks"])
    raise AgentError("bad_request", "start: world does not name node {}".format(plan["node_rank"]))


def rank_cwd(plan, index):
    """The working directory of a process's ranks."""
    process = plan["processes"][index]
    return plan["rank_cwd"] if is_mpirun(process) else process["cwd"]


def joining_words(folder, plan):
    """What mpirun runs as each rank (bytes). No word of the program: `:` is another program to mpirun."""
    node_folder = os.path.dirname(os.path.dirname(os.path.dirname(folder.path)))
    return [b"sh", b"-c", raw(_FIND), b"rankdeck-join", raw(plan["run"]), node_folder]


def write_join(folder, plan):
    """The script that runs a rank's shim on this node. Raises OSError: the disk does not take it."""
    if not any(is_mpirun(process) or is_joined(process) for process in plan["processes"]):
        return
    words = [sys.executable, "-I", "-S", text(folder.archive), "join"]
    line = 'exec {} "$@"\n'.format(" ".join(shlex.quote(word) for word in words))
    write_private(folder.join, raw(line))
