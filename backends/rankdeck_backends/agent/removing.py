"""`remove`: a run's folder goes from this node, once nothing of the run is left here."""

import os
import shutil
import time

from . import environment, kin, processes, start
from .encoding import text
from .errors import AgentError
from .requests import field
from .run_folder import locate, read_json

PATIENCE = 5.0
"""Seconds for a supervisor that has recorded the end to end itself."""


def remove(request, send):
    """`remove`: replies `bytes`, the size of the files that are gone.

    Logs that the plan has elsewhere (a record on a shared file system) are no part of the folder.

    Raises:
        AgentError: `missing`, no run is there; `bad_request`, another run's folder; `busy`, the run goes on,
            or may: its folder is left as it is.
    """
    folder = locate(field(request, "dir", str))
    run = field(request, "run", str)
    plan = read_json(folder.plan)
    if plan is None:
        # Cleaners of /tmp take folders of runs that go on: their processes are known by their marks.
        _check_gone(folder, environment.marks_of_folder(folder.path))
        raise AgentError("missing", "{}: no run is there".format(text(folder.path)))
    if plan["run"] != run:
        raise AgentError(
            "bad_request", "{} is of run {}, not of {}".format(text(folder.path), plan["run"], run)
        )
    _check_ended(folder, plan)
    size = _size(folder.path)
    shutil.rmtree(folder.path)
    try:
        os.rmdir(os.path.dirname(folder.path))
    except OSError:
        pass  # another node of the run is this machine
    return {"bytes": size}, b""


def _check_ended(folder, plan):
    deadline = time.monotonic() + PATIENCE
    while True:
        why = _still_there(folder, plan)
        if not why:
            return
        if time.monotonic() > deadline:
            raise _busy(folder, why)
        time.sleep(0.1)


def _check_gone(folder, marks):
    why = _process_left(folder, marks) if marks else ""
    if why:
        raise _busy(folder, why)


def _busy(folder, why):
    hint = "`rankdeck stop` ends what is left of a run"
    return AgentError("busy", "{}: {}".format(text(folder.path), why), hint)


def _still_there(folder, plan):
    """What of the run is left here, or an empty text."""
    state = read_json(folder.state) or {}
    if start.is_supervised(state):
        return "its supervisor (process {}) has not ended".format(state["pid"])
    if not state.get("ended"):
        return "it is not known to have ended"
    return _process_left(folder, environment.marks(plan, folder.path))


def _process_left(folder, marks):
    for pid in kin.of_run(folder, marks):
        return "process {} of the run is left: {}".format(pid, processes.command_of(pid))
    return ""


def _size(path):
    """Bytes of all files below a folder."""
    total = 0
    for where, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:
                pass
    return total
