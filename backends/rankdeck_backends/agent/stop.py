"""`stop` and `signal`: messages to the supervisor, and what is done where none can be had."""

import errno
import signal
import time

from . import control, ending, environment, kin, processes, signals, start
from .errors import AgentError
from .requests import field
from .run_folder import locate, read_json

ANSWER_LIMIT = 30.0
"""Seconds without any word from a supervisor that is stopping (it speaks once a second)."""
_ATTEMPTS = 5


def answer(request, send):
    """`stop`: streams `stopping` and replies when all is proven gone, or named as left."""
    folder = locate(field(request, "dir", str))
    plan = read_json(folder.plan)
    if plan is None:
        return _without_folder(folder, request, send), b""
    message = {
        "op": "stop",
        "signal": _signal_name(request, plan["stop"]["signal"]),
        "grace": field(request, "grace", float, plan["stop"]["grace"]),
        "force": field(request, "force", bool, False),
    }
    result = _with_supervisor(folder, lambda: _ask(folder, message, send))
    state = read_json(folder.state) or {}
    if result is None:
        result = {"swept": [], "state": state.get("state")}
    left = sweep(folder, environment.marks(plan, folder.path), result["swept"])
    return {"gone": not left, "left": left, "swept": result["swept"], "state": result["state"]}, b""


def _without_folder(folder, request, send):
    """End what runs on although the run's folder is gone (cleaners of /tmp do that), or was never made.

    Processes are known by their marks alone; those of a folder of another shape have none that can be told.
    """
    marks = environment.marks_of_folder(folder.path)
    swept, since = [], time.monotonic()
    if not field(request, "force", bool, False):
        number = signals.number(_signal_name(request, "TERM"))
        grace = field(request, "grace", float, ending.KILL_PATIENCE)
        found = processes.of_run(marks, 0) if marks else {}
        for stat in found.values():
            processes.signal_if_same(stat, number)
        told = -1.0
        while found and time.monotonic() - since < grace:
            if time.monotonic() - told >= 1.0:
                told = time.monotonic()
                left = [{"rank": None, "pid": pid} for pid in sorted(found)]
                send({"ev": "stopping", "left": left, "grace_left": grace - (told - since)})
            time.sleep(0.05)
            found = processes.of_run(marks, 0)
    left = sweep(folder, marks, swept) if marks else []
    return {"gone": not left, "left": left, "swept": swept, "state": None}


def _signal_name(request, default):
    name = field(request, "signal", str, default)
    try:
        signals.number(name)
    except ValueError as error:
        raise AgentError("bad_request", str(error))
    return name


def _with_supervisor(folder, ask):
    """What `ask()` gives, from a living supervisor; None if the run has ended.

    Raises:
        AgentError: none comes up, or none answers.
    """
    for attempt in range(_ATTEMPTS):
        if not start.revive(folder):
            return None
        try:
            return ask()
        except OSError as error:  # it was killed a moment ago, or has just ended
            trouble = error
        time.sleep(0.1 * (attempt + 1))
    raise AgentError("supervisor", "the supervisor does not answer: {}".format(trouble))


def _ask(folder, message, send):
    """Pass on what the supervisor says of a stop until its last word, and return that."""
    caller = control.connect(folder.socket, ANSWER_LIMIT)
    lines = control.LineReader()
    try:
        caller.sendall(control.line_of(message))
        while True:
            data = caller.recv(65536)
            if not data:
                raise OSError(errno.EPIPE, "it closed its socket")
            for said in lines.feed(data):
                if "gone" in said:
                    return said
                send(said)
    finally:
        caller.close()


def sweep(folder, marks, swept):
    """The proof: end what still is the run's; returns what is left."""
    deadline = time.monotonic() + ending.KILL_PATIENCE
    known = set()
    while True:
        found = kin.of_run(folder, marks)
        for stat in found.values():
            if stat.pid not in known:
                known.add(stat.pid)
                swept.append(processes.swept(stat.pid))
            processes.signal_if_same(stat, signal.SIGKILL)
        if not found:
            return []
        if time.monotonic() > deadline:
            return [processes.left(pid) for pid in sorted(found)]
        time.sleep(0.05)


def signal_ranks(request, send):
    """`signal`: replies the ranks that were sent it."""
    folder = locate(field(request, "dir", str))
    ranks = field(request, "ranks", list, None) if request.get("ranks") is not None else None
    name = _signal_name(request, field(request, "signal", str))
    message = {"op": "signal", "ranks": ranks, "signal": name}
    said = _with_supervisor(folder, lambda: control.tell(folder.socket, message, ANSWER_LIMIT))
    return {"sent": said.get("sent", []) if said else []}, b""
