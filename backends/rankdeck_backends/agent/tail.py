"""Following one growing file by byte offset, on a descriptor that is kept."""

import os

CHUNK = 256 << 10


class Tail:
    """One log that is sent in full.

    Attributes:
        name: as the protocol names it (`3.out`).
        offset: of the next byte to send.
    """

    def __init__(self, name, path, offset):
        self.name = name
        self.offset = offset
        self.fd = None
        self._path = path
        self._prefix = None

    def open(self):
        """Try to open it; returns whether it is open."""
        if self.fd is None:
            try:
                self.fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False
        return True

    def waiting(self):
        """Bytes that are there and not sent."""
        if self.fd is None:
            return 0
        try:
            return max(0, os.fstat(self.fd).st_size - self.offset)
        except OSError:
            return 0

    def take(self):
        """The next bytes, at most CHUNK; the offset moves past them."""
        try:
            data = os.pread(self.fd, CHUNK, self.offset)
        except OSError:
            return b""
        self.offset += len(data)
        return data

    def close(self):
        """Let go of the descriptor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
