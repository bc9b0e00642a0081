"""Waiting for several descriptors at once: a thin face on poll(2), without select(2)'s limit of 1024."""

import select


class Loop:
    """Calls back when a descriptor can be read or written."""

    def __init__(self):
        self._poll = select.poll()
        self._callbacks = {}

    def watch(self, fd, callback, writing=False):
        """Call `callback()` whenever `fd` is readable (or writable) or has hung up."""
        self._callbacks[fd] = callback
        self._poll.register(fd, select.POLLOUT if writing else select.POLLIN)

    def forget(self, fd):
        """Stop watching; harmless if it was not watched."""
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def step(self, seconds):
        """Wait at most so long for something to happen, then call back for all that did."""
        for fd, _ in self._poll.poll(max(0, int(seconds * 1000 + 0.999))):
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback()
