"""Processes that print what ranks write: most into files, some into pipes, to see how late lines come."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import measure

from harness import writer

PIPED = 4
"""How many are read as they print. Reading all would take a good part of a core from what is measured."""
_CONNECT_LIMIT = 180.0
_PIECE = 1 << 18


class Tails:
    """Starts commands, waits until each has printed something, and ends them with the `with` block.

    Args:
        commands: what to run.
        folder: takes their output.
    """

    def __init__(self, commands: Sequence[Sequence[str]], folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._marked = 0.0
        self._pieces: dict[int, list[tuple[float, bytes]]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes]

    def __enter__(self) -> Tails:
        outputs = [self._folder / f"tail-{number}" for number in range(len(self._commands))]
        for command, output in zip(self._commands, outputs, strict=True):
            piped = len(self._pieces) < PIPED
            with ExitStack() as stack:
                target = subprocess.PIPE if piped else stack.enter_context(output.open("wb"))
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=target)
            self._processes.append(process)
            if process.stdout is not None:
                self._pieces[process.stdout.fileno()] = []
        self._thread.start()
        files = outputs[len(self._pieces) :]
        measure.wait_for(
            "the first output of every process",
            lambda: all(self._pieces.values()) and all(file.stat().st_size for file in files),
            _CONNECT_LIMIT,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for process in self._processes:
            process.terminate()
        self._thread.join(10)
        for process in self._processes:
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()

    def mark(self) -> None:
        """What came until now was not measured."""
        self._marked = time.time()

    def late(self) -> list[float]:
        """Seconds from write to arrival of every line that came through a pipe since the mark."""
        return [each for pieces in self._pieces.values() for each in writer.late(list(pieces), self._marked)]

    def _read(self) -> None:
        poll = select.poll()
        for handle in self._pieces:
            poll.register(handle, select.POLLIN)
        while not self._over.is_set():
            for handle, _ in poll.poll(500):
                data = os.read(handle, _PIECE)
                if data:
                    self._pieces[handle].append((time.time(), data))
                else:
                    poll.unregister(handle)
