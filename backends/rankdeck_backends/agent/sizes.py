"""The side index of times: how big each rank's files were when. It gives each piece of output its time."""

import os
import time

from .run_folder import log_file, times_file

_GROWING = 0.25
_QUIET = 1.0


class SizeIndex:
    """Looks at the ranks' files and notes their growth; often only while there is some."""

    def __init__(self, directory, ranks):
        """Begin.

        Args:
            directory: the logs' folder (bytes).
            ranks: the rank numbers.
        """
        self._paths = {
            rank: tuple(
                os.path.join(directory, log_file("{}.{}".format(rank, stream))) for stream in ("out", "err")
            )
            for rank in ranks
        }
        self._times = {rank: os.path.join(directory, times_file(rank)) for rank in ranks}
        self._seen = {}
        self._due = 0.0
        self._growing = False

    def due(self):
        """When to look next (monotonic clock)."""
        return self._due

    def sizes(self, rank):
        """`(out, err)` sizes now; 0 where there is no file."""
        return tuple(_size(path) for path in self._paths[rank])

    def look(self, ranks):
        """Look at these ranks' files now and note what has grown."""
        grown = False
        for rank in ranks:
            sizes = self.sizes(rank)
            if sizes != self._seen.get(rank, (0, 0)):
                self._seen[rank] = sizes
                grown = True
                self._note(rank, sizes)
        self._growing = grown
        self._due = time.monotonic() + (_GROWING if grown else _QUIET)

    def _note(self, rank, sizes):
        line = "{:.3f} {} {}\n".format(time.time(), *sizes).encode("ascii")
        try:
            fd = os.open(self._times[rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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
