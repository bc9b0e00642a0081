"""Things that may hang, done in child processes with time limits, several side by side."""

import errno
import os
import select
import signal
import time
from collections import namedtuple

from . import descriptors, signals
from .execute import CannotRun, replace

Captured = namedtuple("Captured", "status out err timed_out")
"""What a command did: `status` as a shell would show it (128 + n for signal n), None if it had to be left."""

_MOST = 4 << 20
_DEATH = 0.2
"""Seconds for killed processes to be gone."""

GROUPS = set()
"""The process groups of children that run now: whoever ends this process early ends them, too."""


def end_groups():
    """Kill what runs now."""
    for group in list(GROUPS):
        kill_group(group)


class Allowance:
    """How long the parts of one answer may take, so that all of it comes in time."""

    def __init__(self, patience, spare):
        """Begin.

        Args:
            patience: seconds from now for what is begun at once.
            spare: seconds more for what follows from that.
        """
        self._patience = patience
        self._end = time.monotonic() + patience + spare

    def of(self, seconds):
        """The limit of something that is begun at once and usually has `seconds`."""
        return min(seconds, self._patience)

    def following(self, seconds):
        """The same of something that follows; nearly none is left if the patience was used up twice."""
        return max(0.1, min(seconds, self._end - time.monotonic()))


class Child:
    """One thing under way. After `finish` it holds what came of it.

    Attributes:
        pid: the process, leader of a group of its own.
        out, err: what it has written so far (bytes).
        status: as in `Captured`; None while it runs, and for good if it had to be left.
        timed_out: whether it had to be left.
        took: seconds from its start to its end.
    """

    def __init__(self, pid, out, err, seconds):
        """Take over a process that was just forked, and the ends to read from (`err` may be None)."""
        self.pid = pid
        self.out = self.err = b""
        self.status = None
        self.timed_out = False
        self.took = 0.0
        self._began = time.monotonic()
        self.deadline = self._began + seconds
        self.pipes = {out: "out"} if err is None else {out: "out", err: "err"}
        GROUPS.add(pid)

    def read(self, fd):
        """Take what has come on one of the pipes."""
        name = self.pipes[fd]
        data = os.read(fd, 65536)
        if not data:
            self.close(fd)
        elif len(getattr(self, name)) < _MOST:
            setattr(self, name, getattr(self, name) + data)

    def close(self, fd):
        """Read no more from a pipe."""
        del self.pipes[fd]
        os.close(fd)

    def end(self):
        """Collect the process, or kill it if its time is over: then it is still to be reaped."""
        for fd in list(self.pipes):
            self.close(fd)
        self.status = _wait(self.pid, self.deadline)
        self.took = time.monotonic() - self._began
        GROUPS.discard(self.pid)
        if self.status is None:
            self.timed_out = True
            kill_group(self.pid)

    def reap(self, deadline):
        """Collect one that was killed; one in uninterruptible sleep is left behind at the deadline."""
        if self.timed_out:
            _wait(self.pid, deadline)


def capture(argv, seconds, environment=None, cwd=None):
    """Run a command, its output in memory; never waits longer than `seconds`, however it hangs.

    Args: see `begin`.
    """
    child = begin(argv, seconds, environment, cwd)
    finish([child])
    return Captured(child.status, child.out, child.err, child.timed_out)


def call(function, seconds):
    """The bytes that `function()` returns, computed in a child; None if it took longer or failed."""
    child = begin_call(function, seconds)
    finish([child])
    return child.out if child.status == 0 else None


def begin(argv, seconds, environment=None, cwd=None):
    """Start a command; `finish` waits for it.

    Args:
        argv: bytes words; the program is looked for in PATH.
        seconds: the time limit.
        environment: {bytes: bytes}; this process's own if None.
        cwd: where to run it (bytes).
    """
    environment = dict(os.environb) if environment is None else environment
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, environment, cwd, out_write, err_write)
    os.close(out_write)
    os.close(err_write)
    return Child(pid, out_read, err_read, seconds)


def begin_call(function, seconds):
    """Start `function()` in a child.

    Args:
        function: returns bytes, or yields them piece by piece: what has come is kept if it hangs later.
        seconds: the time limit.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.setsid()
            made = function()
            for data in [made] if isinstance(made, bytes) else made:
                while data:
                    data = data[os.write(write, data) :]
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    return Child(pid, read, None, seconds)


def finish(children, ended=None):
    """Wait until all have ended or are out of time.

    Args:
        children: of `begin` and `begin_call`.
        ended: called with each that has; a child that it returns is waited for as well.
    """
    waiting = select.poll()
    under_way = []
    owners = {}

    def take(child):
        under_way.append(child)
        for fd in child.pipes:
            owners[fd] = child
            waiting.register(fd, select.POLLIN)

    for child in children:
        take(child)
    while under_way:
        soonest = min(child.deadline for child in under_way) - time.monotonic()
        for fd, _ in waiting.poll(max(0, int(soonest * 1000) + 1)):
            owners[fd].read(fd)
            if fd not in owners[fd].pipes:
                waiting.unregister(fd)
        now = time.monotonic()
        done = [child for child in under_way if not child.pipes or child.deadline <= now]
        for child in done:
            under_way.remove(child)
            for fd in child.pipes:
                waiting.unregister(fd)
            child.end()
        patience = time.monotonic() + _DEATH
        for child in done:
            child.reap(patience)
            following = ended(child) if ended else None
            if following is not None:
                take(following)


def _become(argv, environment, cwd, out, err):
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        descriptors.point(null, 0)
        descriptors.point(out, 1)
        descriptors.point(err, 2)
        descriptors.close_all_but(())
        signals.reset()
        if cwd is not None:
            os.chdir(cwd)
        replace(argv, environment)
    except CannotRun as error:
        os.write(2, error.message.encode("utf-8", "replace"))
        os._exit(error.status)
    except OSError as error:
        os.write(2, str(error).encode("utf-8", "replace"))
    finally:
        os._exit(126)


def _wait(pid, deadline):
    """The child's status as a shell shows it, or None if it has not ended in time."""
    pause = 0.001
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except OSError as error:
            if error.errno == errno.ECHILD:
                return 0
            raise
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def kill_group(pid):
    """SIGKILL to a process and its group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass
