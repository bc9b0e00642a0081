"""The plan's setup lines: run by the node's shell, for the environment they leave."""

import os
import re
import time

from . import descriptors, environment, signals
from .encoding import printable, raw
from .execute import CannotRun, at_home, replace

LIMIT = 600.0
"""Seconds for all lines: a module system on a slow file system takes a minute, a hung one for ever."""

_OUTPUT_KEPT = 8192
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*\Z")
_END = b"command env -0 >&9\n"


class SetupRun:
    """A running setup shell.

    Its pipes are read whenever the owner's loop says so; `ended(status)` is called when the owner has reaped
    `pid`. The shell writes to descriptor 8 which line runs and to 9 the environment at the end: the lines
    must leave both alone.

    Attributes:
        pid: the shell, leader of its own group.
        fds: descriptors to watch; each is passed to `read`.
    """

    def __init__(self, lines, base, cwd):
        """Start it.

        Args:
            lines: shell text, each complete in itself.
            base: the environment it begins with (bytes).
            cwd: the working directory, or None for the home.
        """
        self._lines = lines
        self._began = time.monotonic()
        self._parts = {}
        roles = {}
        writers = {}
        for role in ("output", "line", "environment"):
            read, writers[role] = os.pipe()
            os.set_blocking(read, False)
            roles[role] = read
            self._parts[read] = b""
        self._roles = roles
        self.fds = list(roles.values())
        self.pid = os.fork()
        if self.pid == 0:
            _become_shell(script(lines, _removed(base)), base, cwd, writers)
        for fd in writers.values():
            os.close(fd)

    def deadline(self):
        """When it must have ended (monotonic clock)."""
        return self._began + LIMIT

    def read(self, fd):
        """Take what is there; returns False at the end of this pipe."""
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return True
            if not data:
                return False
            kept = self._parts[fd] + data
            self._parts[fd] = kept if fd == self._roles["environment"] else kept[-_OUTPUT_KEPT:]

    def ended(self, status):
        """The shell has ended.

        Args:
            status: as a shell shows it, or None if it was stopped at the time limit.

        Returns:
            `(environment, None)`, or `(None, {line, status, output})` where a line failed.
        """
        for fd in self.fds:
            self.read(fd)
            os.close(fd)
        data = self._parts[self._roles["environment"]]
        if status == 0 and data.endswith(b"\0"):
            return _cleaned(environment.parse(data)), None
        return None, {
            "line": self._failing_line(),
            "status": status,
            "output": printable(self._parts[self._roles["output"]]).strip()
            if status is not None
            else "it was stopped after {:g} s".format(LIMIT),
        }

    def _failing_line(self):
        reached = self._parts[self._roles["line"]].split()
        if reached and reached[-1].isdigit() and int(reached[-1]) < len(self._lines):
            return self._lines[int(reached[-1])]
        return self._lines[0]


def script(lines, removed=()):
    """The shell text: each line announces itself, the first failing one ends it, the environment is last.

    Args:
        lines: shell text.
        removed: names of variables (bytes) that are not to be there when the first line runs. A bash that
            was started by way of ssh may read ~/.bashrc (bash(1), INVOCATION), and export them again.
    """
    parts = [b"unset -v " + b" ".join(removed) + b" 2>/dev/null\n"] if removed else []
    parts.append(b"set -e\n")
    for index, line in enumerate(lines):
        parts.append("echo {} >&8\n".format(index).encode("ascii"))
        parts.append(raw(line) + b"\n")
    parts.append(_END)
    return b"".join(parts)


def _removed(base):
    """What was taken out of the login's environment."""
    return sorted(name for name in environment.inherited() if name not in base and _NAME.match(name))


def _become_shell(text, base, cwd, writers):
    try:
        os.setsid()
        for fd, target in ((writers["output"], 1), (writers["output"], 2)):
            descriptors.point(fd, target)
        # 8 and 9 may themselves be taken by the pipes: move those out of the way first.
        line = _above(writers["line"])
        result = _above(writers["environment"])
        descriptors.point(line, 8)
        descriptors.point(result, 9)
        descriptors.point(os.open(os.devnull, os.O_RDONLY), 0)
        descriptors.close_all_but((8, 9))
        signals.reset()
        try:
            if cwd is not None:
                os.chdir(at_home(raw(cwd), base))
        except OSError:
            pass  # the processes that need it say so by themselves
        shell = b"/bin/bash" if os.access(b"/bin/bash", os.X_OK) else b"sh"
        replace([shell, b"-c", text, b"rankdeck-setup"], base)
    except CannotRun as error:
        os.write(2, error.message.encode("utf-8", "replace"))
    finally:
        os._exit(126)


def _above(fd):
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD, 10)


def _cleaned(found):
    """Without what the shell itself adds."""
    for name in (b"_", b"SHLVL", b"OLDPWD"):
        found.pop(name, None)
    return found
