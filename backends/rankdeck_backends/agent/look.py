"""`look`: all that preflight reads on this node, in one answer. Reads and asks; judges and changes nothing.

What is read: docs/preflight.md. Whatever may block runs in a child with a time limit, all side by side: the
answer takes as long as the slowest of them, and a child that hangs in the kernel is left behind.
"""

import json
import os
import sys
from functools import partial

from . import environment, limited, look_calls, look_files, mpi
from .encoding import printable, raw, text
from .execute import NOT_FOUND, at_home
from .look_commands import Commands
from .requests import field

_FILES_LIMIT = 5.0
"""Seconds for all files of one kind: a full node has some 2000, which take 0.2 s."""
_THERE_LIMIT = 20.0
"""Seconds for the program's interpreter to start and to find libraries: parallel file systems are slow."""
_LONGEST = 20.0
"""Seconds for anything, if the request's `patience` does not say less."""
_FOLLOWING = 2.5
"""Seconds more for what can be asked only when something else has been answered."""
_MPI_LIMIT = 10.0
"""Seconds for `mpirun --version`."""


def answer(request, send):
    """`look`: replies nothing but a body, the JSON of `files`, `commands` and `syscalls`."""
    looking = _Looking(request)
    limited.finish(looking.children(), looking.ended)
    return {}, json.dumps(looking.found()).encode("ascii")


class _Looking:
    """One look: what is under way, and what has come."""

    def __init__(self, request):
        around = mpi.Surroundings(request)
        self._request = request
        self._around = around
        self._base = environment.inherited() if around.base is None else around.base
        self._ranks = environment.with_text(self._base, field(request, "env", dict, {}))
        self._files = {}
        self._calls = {}
        self._takers = {}
        patience = field(request, "patience", float, _LONGEST)
        self._calls["patience"] = patience
        self._allowance = limited.Allowance(patience, _FOLLOWING)
        self._commands = Commands(self._base, self._allowance)
        self._begin_files()
        self._begin_calls()
        self._begin_there()

    def children(self):
        """All that was begun."""
        return [child for child, _ in self._takers.values()] + self._commands.children

    def ended(self, child):
        """Take what a child has given. Returns one that follows it, or None."""
        if child.pid not in self._takers:
            return self._commands.ended(child)
        return self._takers[child.pid][1](child)

    def found(self):
        """The reply."""
        calls = look_calls.quick(self._ranks)
        calls.update(look_calls.merged(self._calls))
        calls.update(self._commands.calls)
        return {"files": self._files, "commands": self._commands.found, "syscalls": calls}

    def _begin(self, function, seconds, take):
        child = limited.begin_call(function, self._allowance.of(seconds))
        self._takers[child.pid] = (child, take)

    def _begin_files(self):
        kinds = [partial(look_files.node, self._ranks)]
        if look_files.has_fabric():
            kinds.append(look_files.fabric)
        for kind in kinds:
            self._begin(lambda kind=kind: look_files.lines(kind()), _FILES_LIMIT, self._take_files)

    def _take_files(self, child):
        self._files.update(look_files.parse(child.out))

    def _begin_calls(self):
        asked = look_calls.slow(
            self._ranks,
            field(self._request, "peers", list, []),
            self._paths(),
            field(self._request, "script", str, "") or None,
            at_home(raw(field(self._request, "cwd", str, "") or "~"), self._ranks),
        )
        for key, function, seconds, otherwise in asked:
            self._calls[key] = otherwise
            self._begin(partial(look_calls.as_bytes, function), seconds, partial(self._take_call, key))
        mpirun = field(self._request, "mpirun", str, "")
        if mpirun and self._around.base is not None:
            ask = partial(_mpi, self._around, raw(mpirun))
            self._begin(partial(look_calls.as_bytes, ask), _MPI_LIMIT, partial(self._take_call, "mpi"))

    def _paths(self):
        """What is asked, and this agent's own folder, where runs are."""
        own = {"path": text(os.fsencode(self._request["folder"])), "purpose": "run"}
        return [each for each in field(self._request, "paths", list, []) if isinstance(each, dict)] + [own]

    def _take_call(self, key, child):
        if child.status == 0:
            self._calls[key] = json.loads(child.out.decode("ascii"))

    def _begin_there(self):
        """In the program's own interpreter, or, where that does not run, in the agent's."""
        if self._around.base is None:
            self._calls["python"] = {"asked": text(self._around.python), "state": self._around.trouble}
            self._begin_libraries()
            return
        argv = [self._around.python, raw(sys.path[0]), b"there", self._around.python]
        child = limited.begin(argv, self._allowance.of(_THERE_LIMIT), self._ranks, self._around.cwd)
        self._takers[child.pid] = (child, self._take_there)

    def _begin_libraries(self):
        argv = [os.fsencode(sys.executable), raw(sys.path[0]), b"there"]
        child = limited.begin(argv, self._allowance.following(_THERE_LIMIT), self._ranks, self._around.cwd)
        self._takers[child.pid] = (child, self._take_libraries)
        return child

    def _take_there(self, child):
        self._take_libraries(child)
        if "python" in self._calls:
            return None
        if child.timed_out:
            state = "timeout"
        elif child.status == NOT_FOUND:
            state = "missing"
        else:
            state = (printable(child.err).strip().split("\n")[-1] or "status {}".format(child.status))[:300]
        self._calls["python"] = {"asked": text(self._around.python), "state": state}
        return self._begin_libraries()

    def _take_libraries(self, child):
        for line in child.out.split(b"\n"):
            try:
                key, value = json.loads(line.decode("ascii"))
            except (ValueError, TypeError, RecursionError):
                continue  # cut short, or something that a start-up file of the interpreter printed
            if isinstance(key, str):
                self._calls[key] = value


def _mpi(around, mpirun):
    return dict(mpi.launcher(around, mpirun), daemon=mpi.daemon(around))
