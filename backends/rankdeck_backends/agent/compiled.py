"""The agent's zip with compiled modules in it, kept beside the original for the next session or shim.

Compiling takes longer than all the rest of a start, and Python keeps no compiled modules for a zip by itself.
The source stays in it for interpreters that can't use what this one compiled.
"""

import os
import sys
import time

from . import descriptors

_UNCHECKED_HASH = 1
"""A .pyc's flags (PEP 552): nothing to compare with; the zip's name has the hash of the sources in it."""
_STALE = 60.0
"""Seconds after which whoever was writing it has died."""


def beside(archive):
    """The path of the compiled zip for this interpreter; bootstrap.py makes the same."""
    folder, name = os.path.split(archive)
    return os.path.join(folder, "compiled-{}-{}".format(sys.implementation.cache_tag, name))


def keep(archive):
    """Make it in a child, with less priority, if there is none; does nothing before Python 3.7."""
    if sys.version_info < (3, 7) or os.path.basename(archive).startswith("compiled-"):
        return
    target = beside(archive)
    if os.path.exists(target) or os.fork():
        return
    # From here on in the child.
    try:
        os.nice(5)
        descriptors.point(os.open(os.devnull, os.O_RDWR), 0, 1)
        descriptors.close_all_but(())
        write(archive, target)
    finally:
        os._exit(0)  # without one all works, only slower


def write(archive, target):
    """Write the compiled zip; it is there in whole or not at all. One process at a time does it.

    Raises:
        OSError: it can't be written, or another process is at it.
    """
    import zipfile  # only where it is needed: this module is loaded at every start

    temporary = target + ".new"
    try:
        if time.time() - os.lstat(temporary).st_mtime > _STALE:
            os.unlink(temporary)
    except FileNotFoundError:
        pass
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            with zipfile.ZipFile(archive) as read, zipfile.ZipFile(file, "w") as made:
                for name in read.namelist():
                    source = read.read(name)
                    made.writestr(name + "c", _compiled(source, os.path.join(target, name)))
                    made.writestr(name, source)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _compiled(source, path):
    import importlib.util
    import marshal
    import struct

    code = compile(source, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED_HASH) + bytes(8) + marshal.dumps(code)
