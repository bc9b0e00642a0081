"""A command on a pseudo-terminal: keys go in, what it shows comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable

from cli.user import COMMAND, LIMIT, Shell


class Terminal:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, shell: Shell, *arguments: str, **more: str) -> None:
        self.seen = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(shell.folder)
            os.execve(
                COMMAND, [str(COMMAND), *arguments], {**shell.environment, "TERM": "xterm-256color", **more}
            )
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def until(self, wanted: Callable[[str], bool] | str) -> str:
        """Reads until it has shown the text; returns all it has shown."""
        told = wanted if isinstance(wanted, str) else "it"
        met = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        limit = time.monotonic() + LIMIT
        while not met(self.seen):
            assert time.monotonic() < limit, f"{told} was not shown in {LIMIT} s, only\n{self.seen}"
            assert self._read() or met(self.seen), f"it ended without showing {told}, only\n{self.seen}"
        return self.seen

    def type(self, keys: str) -> None:
        """Types keys, and forgets what was shown before."""
        self.seen = ""
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        """Reads to the end; the exit status."""
        limit = time.monotonic() + LIMIT
        while self._read():
            assert time.monotonic() < limit, f"no end in {LIMIT} s:\n{self.seen}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Ends it, if it has not ended."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: nobody holds the other end any more
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)
