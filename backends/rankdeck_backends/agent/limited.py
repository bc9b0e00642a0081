"""Things that may hang, done in a child process with a time limit."""

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

GROUPS = set()
"""The process groups of children that run now: whoever ends this process early ends them, too."""


def end_groups():
    """Kill what runs now."""
    for group in list(GROUPS):
        kill_group(group)


def capture(argv, seconds, environment=None, cwd=None):
    """Run a command, its output in memory; never waits longer than `seconds`, however it hangs.

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
    GROUPS.add(pid)
    os.close(out_write)
    os.close(err_write)
    deadline = time.monotonic() + seconds
    try:
        parts = _collect([out_read, err_read], deadline)
    finally:
        os.close(out_read)
        os.close(err_read)
    status = _wait(pid, deadline)
    GROUPS.discard(pid)
    if status is None:
        kill_group(pid)
        _wait(pid, time.monotonic() + 0.2)  # one in uninterruptible sleep is left behind
    return Captured(status, parts[0], parts[1], status is None)


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


def call(function, seconds):
    """The bytes that `function()` returns, computed in a child; None if it took longer or failed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.setsid()
            data = function()
            while data:
                data = data[os.write(write, data) :]
            os._exit(0)
        finally:
            os._exit(1)
    GROUPS.add(pid)
    os.close(write)
    deadline = time.monotonic() + seconds
    try:
        data = _collect([read], deadline)[0]
    finally:
        os.close(read)
    status = _wait(pid, deadline)
    GROUPS.discard(pid)
    if status is None:
        kill_group(pid)
        _wait(pid, time.monotonic() + 0.2)
    return data if status == 0 else None


def _collect(fds, deadline):
    """Read until all have ended or the time is over."""
    parts = dict.fromkeys(fds, b"")
    waiting = select.poll()
    for fd in fds:
        waiting.register(fd, select.POLLIN)
    left = len(fds)
    while left:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            break
        for fd, _ in waiting.poll(int(seconds * 1000) + 1):
            data = os.read(fd, 65536)
            if data:
                if len(parts[fd]) < _MOST:
                    parts[fd] += data
            else:
                waiting.unregister(fd)
                left -= 1
    return [parts[fd] for fd in fds]


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
