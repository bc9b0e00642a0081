"""Ends the program when its terminal is gone: the window was closed, the SSH session or tmux ended.

Usually the kernel's SIGHUP does that. It is not sent to a process without a controlling terminal, and some
wrappers ignore it for their children; then Textual's writer thread ends at its first error, its reader thread
spins on the end of file, and the screens wait for the writer for ever (textual 8.2:
drivers/_writer_thread.py, drivers/linux_driver.py).
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_STATUS = 128 + signal.SIGHUP
LOOK_MS = 1000
STDOUT = 1

_log = logging.getLogger(__name__)


@contextmanager
def watched_terminal() -> Iterator[None]:
    """End the process with status 129 if the terminal goes while the body runs; runs go on, as at any end."""
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(STDOUT, over), name="terminal", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(terminal: int, over: threading.Event) -> None:
    poll = select.poll()
    poll.register(terminal, 0)  # hang-ups and errors are always told
    while not over.is_set():
        if poll.poll(LOOK_MS) and not over.is_set():
            _log.warning("the terminal is gone; runs go on")
            # Nothing is left to be written or given back, and other threads may wait for the writer for ever.
            os._exit(EXIT_STATUS)
