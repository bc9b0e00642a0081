"""Taking connections, and not turning in circles where the system has no descriptor left for one."""

import errno

PAUSE = 1.0
"""Seconds that nobody is taken then. The callers wait in the listener's queue, which poll(2) would report at
once, again and again."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_full(error):
    """Whether accept(2) failed for want of descriptors or memory: the connection still waits."""
    return error.errno in _FULL


def next_caller(loop, listener):
    """The next connection that waits at a listener watched by the loop; None: for now there is none."""
    try:
        return listener.accept()[0]
    except OSError as error:
        if is_full(error):
            loop.pause(listener.fileno(), PAUSE)
        return None
