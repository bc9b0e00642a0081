"""A pseudo-terminal of our own: every byte that the app writes is kept, and any bytes can be sent to it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pyte

LIMIT = 90.0


class Terminal:
    """The app in a child process on a pseudo-terminal.

    Args:
        code: Python source to run; it finds the tests' own modules.
        columns: cells of a row.
        lines: rows.
    """

    def __init__(self, code: str, columns: int = 120, lines: int = 40) -> None:
        self.output = bytearray()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        self.slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal. The app is no session's foreground: it gets no SIGHUP."""
        if self._master >= 0:
            os.close(self.slave)
            os.close(self._master)
            self._master = -1

    def send(self, data: bytes) -> None:
        """Bytes as a terminal sends them: keys, mouse reports, rubbish."""
        os.write(self._master, data)

    def read(self, seconds: float = 0.1) -> None:
        """Take what has been written."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            self.output += data
            self._stream.feed(data)

    def text(self) -> str:
        """The screen as a terminal shows it."""
        return "\n".join(self.screen.display)

    def sees(self, wanted: str, limit: float = LIMIT) -> None:
        """Wait until the screen holds this text."""
        deadline = time.monotonic() + limit
        while wanted not in self.text():
            assert time.monotonic() < deadline, f"no {wanted!r} within {limit} s:\n{self.text()}"
            self.read()

    def reads_until(self, condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
        """Take what is written until something has come about; a full terminal would hold the app up."""
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {limit} s:\n{self.text()}"
            self.read()

    def ends(self, limit: float = LIMIT) -> int:
        """Wait for the end; gives the exit status."""
        deadline = time.monotonic() + limit
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"not over within {limit} s:\n{self.text()}"
            self.read()
        for _ in range(20):
            self.read(0.02)
        return self.process.returncode
