"""The shim of a rank that an mpirun started: finds its node's run, joins it, and runs the program.

mpirun's environment is not the program's: that comes from the node's supervisor, over its socket, so that
nothing secret is on disk.
"""

import fnmatch
import os
import sys

from . import census, control, descriptors, environment, execute, processes, relay, setup, shim
from .encoding import raw, text
from .run_folder import RunFolder, read_json

_ANSWER_LIMIT = setup.LIMIT + 60.0
"""Seconds for the supervisor to have this rank's environment: its setup lines may still run."""
_TELL_LIMIT = 5.0


class CannotJoin(Exception):
    """This rank has no place in the run.

    Attributes:
        folder: the RunFolder whose supervisor is to know, or None.
    """

    def __init__(self, message, folder=None):
        Exception.__init__(self, message)
        self.folder = folder


def under_mpirun(arguments):
    """`join FOLDER`, the folder of all of the run's nodes on this machine; ends as the program ended."""
    own = environment.inherited()
    relay_pid = relay.part()
    try:
        folder, plan, rank = _place(os.fsencode(arguments[0]), own)
        made = _join(folder, rank, relay_pid)
    except CannotJoin as refused:
        sys.stderr.write("rankdeck: {}\n".format(refused))
        if refused.folder is not None:
            _tell(refused.folder, str(refused))
        return execute.NOT_RUN
    described = plan["processes"][0]
    local_rank = described["local_ranks"][described["ranks"].index(rank)]
    made.update(kept(own, described["rank_from"].get("keep") or ()))
    made[b"RANK"], made[b"LOCAL_RANK"] = str(rank).encode("ascii"), str(local_rank).encode("ascii")
    program = shim.program_words(plan, 0, rank, local_rank, made)
    kept_open = _descriptors(made)
    # mpirun waits for the end of its pipes, which is the relay's alone.
    descriptors.point(os.open(os.devnull, os.O_RDWR), 0, 1, 2)
    descriptors.close_all_but(kept_open)
    under = shim.Shim(folder, plan, shim.Place(0, rank, local_rank), made, True, kept_open, relayed=True)
    relay.end_like(under.run(program))
    return execute.NOT_RUN


def kept(own, globs):
    """Those of the shim's own variables that mpirun gave it for the program."""
    return {
        name: value
        for name, value in own.items()
        if any(fnmatch.fnmatchcase(text(name), glob) for glob in globs)
    }


def _place(runs, own):
    """`(folder, plan, rank)` of this process: its rank says which node it is on."""
    found = [RunFolder(os.path.join(runs, name)) for name in sorted(os.listdir(runs))]
    plans = [(folder, read_json(folder.plan)) for folder in found]
    plans = [(folder, plan) for folder, plan in plans if plan is not None and plan.get("world")]
    if not plans:
        raise CannotJoin("{}: no plan is there".format(text(runs)))
    any_folder, any_plan = plans[0]
    source = any_plan["processes"][0]["rank_from"]
    rank = _number(own, source["rank"], any_folder)
    size = _number(own, source["world_size"], any_folder)
    if size != any_plan["world_size"]:
        raise CannotJoin(census.other_world(rank, size, any_plan["world_size"]), any_folder)
    for folder, plan in plans:
        if rank in plan["processes"][0]["ranks"]:
            return RunFolder(os.path.realpath(folder.path)), plan, rank
    message = "mpirun started rank {} on {}, where the plan has {}: its hosts are not those of the plan"
    here = ", ".join("ranks {}".format(plan["processes"][0]["ranks"]) for _, plan in plans)
    raise CannotJoin(message.format(rank, os.uname().nodename, here), any_folder)


def _number(own, name, folder):
    value = own.get(raw(name))
    if value is None or not value.isdigit():
        shown = "not set" if value is None else repr(text(value))
        raise CannotJoin("mpirun does not tell its ranks who they are: {} is {}".format(name, shown), folder)
    return int(value)


def _join(folder, rank, relay_pid):
    """The rank's environment (bytes), as its supervisor made it."""
    message = {
        "op": "join",
        "rank": rank,
        "shim_pid": os.getpid(),
        "shim_start": processes.start_of(os.getpid()),
        "relay_pid": relay_pid,
        "boot": processes.boot_id(),
    }
    try:
        said = control.tell(folder.socket, message, _ANSWER_LIMIT)
    except OSError as error:
        raise CannotJoin("rank {}: its node's supervisor does not answer: {}".format(rank, error))
    if not said.get("ok"):
        raise CannotJoin(said.get("message") or "refused")
    return {raw(name): raw(value) for name, value in said["env"].items()}


def _tell(folder, message):
    try:
        control.tell(folder.socket, {"op": "join_failed", "message": message}, _TELL_LIMIT)
    except OSError:
        pass  # mpirun's own stderr has it, too


def _descriptors(env):
    """The open descriptors that variables such as PMI_FD tell the program of (hydra)."""
    numbers = {int(value) for name, value in env.items() if name.endswith(b"_FD") and value.isdigit()}
    return sorted(fd for fd in numbers if fd > 2 and os.path.exists("/proc/self/fd/{}".format(fd)))
