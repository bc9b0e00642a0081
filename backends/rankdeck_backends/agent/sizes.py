"""The side index of times: how big each rank's files were when. It gives each piece of output its time."""

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
        """Look at these ranks' files now and note what has grown."""
        grown = False
        for log in logs:
            sizes = self.sizes(log)
            if sizes != self._seen.get(log, (0, 0)):
                self._seen[log] = sizes
                grown = True
                self._note(log, sizes)
        self._growing = grown
        self._due = time.monotonic() + (_GROWING if grown else _QUIET)

    def _path(self, log, ending):
        return os.path.join(self._directory, log_file("{}.{}".format(log, ending)))

    def _note(self, log, sizes):
        line = "{:.3f} {} {}\n".format(time.time(), *sizes).encode("ascii")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(self._path(log, "times"), flags, 0o600)
        except OSError:
            return  # times are a convenience
        try:
            os.write(fd, line)
        except OSError:
            pass
        finally:
            os.close(fd)


def _size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
