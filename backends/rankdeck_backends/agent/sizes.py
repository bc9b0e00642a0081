"""The side index of times: how big each rank's files were when. It gives each piece of output its time.

Whoever looks at the files also sees that their disk is full: ranks write to it themselves, and what it does
not take of their output nobody else ever hears of.
"""

import errno
import os
import time

from .run_folder import log_file

_GROWING = 0.25
_QUIET = 1.0


class SizeIndex:
    """Looks at the ranks' files and notes their growth; often only while there is some."""

    def __init__(self, directory):
        """Begin.

        Args:
            directory: the logs' folder (bytes).
        """
        self._directory = directory
        self._seen = {}
        self._due = 0.0
        self._refusal = ""
        self._growing = False

    def due(self):
        """When to look next (monotonic clock)."""
        return self._due

    def sizes(self, log):
        """`(out, err)` sizes now; 0 where there is no file.

        Args:
            log: as `run_folder.log_stem` gives it.
        """
        return tuple(_size(self._path(log, stream)) for stream in ("out", "err"))

    def look(self, logs):
        """Look at these ranks' files now and note what has grown.

        Returns:
            Why the disk takes no more, as the system says it (`No space left on device`); empty if it does.
        """
        self._refusal = ""
        grown = False
        for log in logs:
            sizes = self.sizes(log)
            if sizes != self._seen.get(log, (0, 0)):
                self._seen[log] = sizes
                grown = True
                self._note(log, sizes)
        self._growing = grown
        self._due = time.monotonic() + (_GROWING if grown else _QUIET)
        if not self._refusal and self._is_full():
            self._refusal = os.strerror(errno.ENOSPC)
        return self._refusal

    def _is_full(self):
        """Whether there is no room at all: files that nobody can write to do not grow, so no note fails."""
        try:
            room = os.statvfs(self._directory)
        except OSError:
            return False
        free = room.f_bfree if os.geteuid() == 0 else room.f_bavail
        return room.f_blocks > 0 and free == 0

    def _path(self, log, ending):
        return os.path.join(self._directory, log_file("{}.{}".format(log, ending)))

    def _note(self, log, sizes):
        line = "{:.3f} {} {}\n".format(time.time(), *sizes).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(self._path(log, "times"), flags, 0o600)
        except OSError as error:
            self._refuse(error)
            return
        try:
            os.write(fd, line)
        except OSError as error:
            self._refuse(error)
        finally:
            os.close(fd)

    def _refuse(self, error):
        """Times are a convenience; but what has no room for them has none for the ranks' output."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._refusal = error.strerror


def _size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
