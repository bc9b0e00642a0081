"""Waiting for several descriptors at once: a thin face on poll(2), without select(2)'s limit of 1024."""

import select
import time


class Loop:
    """Calls back when a descriptor can be read or written."""

    def __init__(self):
        self._poll = select.poll()
        self._callbacks = {}
        self._paused = {}

    def watch(self, fd, callback, writing=False):
        """Call `callback()` whenever `fd` is readable (or writable) or has hung up."""
        self._callbacks[fd] = callback
        self._poll.register(fd, select.POLLOUT if writing else select.POLLIN)

    def forget(self, fd):
        """Stop watching; harmless if it was not watched."""
        if self._callbacks.pop(fd, None) is not None and self._paused.pop(fd, None) is None:
            self._poll.unregister(fd)

    def pause(self, fd, seconds):
        """Leave a descriptor that is watched for reading alone for so long."""
        if fd not in self._paused:
            self._poll.unregister(fd)
        self._paused[fd] = time.monotonic() + seconds

    def step(self, seconds):
        """Wait at most so long for something to happen, then call back for all that did."""
        seconds = min([seconds] + [until - time.monotonic() for until in self._paused.values()])
        for fd, _ in self._poll.poll(max(0, int(seconds * 1000 + 0.999))):
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback()
        for fd in [fd for fd, until in self._paused.items() if time.monotonic() >= until]:
            del self._paused[fd]
            self._poll.register(fd, select.POLLIN)
