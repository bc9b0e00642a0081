"""The node's log bytes in the record: written at the offset the node gave, never lost, never doubled."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from pathlib import Path

OPEN_FILES = 256
"""Files kept open at once: a shell's usual limit is 1,024 descriptors, of which connections need some,
too."""


class GapError(Exception):
    """Bytes came that begin beyond the end of what is here: those between were missed."""


class Mirror:
    """Copies of logs that only grow.

    Two rankdecks may follow the same run: each writes the same bytes at the same places. A file's size always
    tells how many bytes from its beginning are here, as nobody writes beyond it.

    Args:
        folder: the record's `logs/`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, int] = OrderedDict()
        self._sizes: dict[str, int] = {}

    def size(self, name: str) -> int:
        """Bytes of the file that are here."""
        if name not in self._sizes:
            try:
                self._sizes[name] = os.stat(self._folder / name).st_size
            except FileNotFoundError:
                self._sizes[name] = 0
        return self._sizes[name]

    def write(self, name: str, offset: int, data: bytes | memoryview) -> None:
        """Put bytes in their place. What is here already is left as it is.

        Args:
            name: the file's name in the folder.
            offset: where the bytes begin.
            data: the bytes.

        Raises:
            GapError: bytes before them are missing.
            OSError: they can't be written (disk full).
        """
        size = self._sizes.get(name)
        if size is None:
            size = self.size(name)
        if offset > size:
            raise GapError(f"{name}: bytes from {size} to {offset} were missed")
        known = size - offset
        if known >= len(data):
            return
        view = memoryview(data)[known:] if known else data
        while view:
            written = os.pwrite(self._handle(name), view, size)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder / name))
            size += written
            # Noted at each step: after a failure, the next bytes asked for are those that are missing.
            self._sizes[name] = size
            view = view[written:]

    def replace(self, name: str, offset: int, data: bytes) -> None:
        """Put bytes over those that are there.

        Args:
            name: the file's name in the folder.
            offset: where they begin: not beyond the file's end.
            data: the bytes.

        Raises:
            OSError: they can't be written.
        """
        view = memoryview(data)
        while view:
            written = os.pwrite(self._handle(name), view, offset)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder / name))
            offset += written
            view = view[written:]

    def forget_sizes(self) -> None:
        """Look at the files again: somebody else may have written, or removed one."""
        self._sizes.clear()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _handle(self, name: str) -> int:
        handle = self._open.get(name)
        if handle is not None:
            self._open.move_to_end(name)
            return handle
        if len(self._open) >= OPEN_FILES:
            os.close(self._open.popitem(last=False)[1])
        handle = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._open[name] = handle
        return handle
