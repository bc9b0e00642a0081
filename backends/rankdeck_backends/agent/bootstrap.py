"""The first code on a node: takes the agent's zip from standard input, stores it and becomes a session.

Never imported: its text goes over standard input and is run with `exec` by the command line's one-line
program. Lines put before it set ZIP_NAME and `read_exactly(n)`, which reads so many bytes of standard input.
"""

import errno
import os
import stat
import struct
import sys

NO_FOLDER_STATUS = 98


def candidates():
    """The node folders to try, best first. A folder that the user named is the only one."""
    named = os.environ.get("RANKDECK_NODE_DIR")
    if named:
        return [os.path.abspath(os.path.expanduser(named))]
    name = "rankdeck-{}".format(os.getuid())
    return [os.path.join(parent, name) for parent in ("/var/tmp", "/tmp", "/dev/shm")]


def make_private(path):
    """Make the folder, or take one that is ours and nobody else's: /tmp is everybody's."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "is not a folder")
    if found.st_uid != os.getuid():
        raise OSError(errno.EPERM, "belongs to uid {}".format(found.st_uid))
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)


def store(path, data):
    """Put the zip into place unless the very same one is there."""
    try:
        with open(path, "rb") as file:
            if file.read() == data and os.lstat(path).st_uid == os.getuid():
                return
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
    temporary = "{}.{}".format(path, os.getpid())
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def settle(data):
    """Find a node folder that takes the zip; returns (folder, zip path). Ends the process where none does."""
    tried = []
    for folder in candidates():
        path = os.path.join(folder, ZIP_NAME)  # noqa: F821 - set by the line before this text
        try:
            make_private(folder)
            store(path, data)
        except OSError as error:
            tried.append("{}: {}".format(folder, error.strerror or error))
        else:
            return folder, path
    message = "RANKDECK-NO-FOLDER {}\n".format("; ".join(tried))
    os.write(1, message.encode("utf-8", "surrogateescape"))
    os._exit(NO_FOLDER_STATUS)


def begin(read):
    """Everything from the zip's arrival to the session's end."""
    folder, path = settle(read(struct.unpack(">I", read(4))[0]))
    # What an earlier session has compiled (compiled.py).
    compiled = os.path.join(folder, "compiled-{}-{}".format(sys.implementation.cache_tag, ZIP_NAME))  # noqa: F821
    sys.path.insert(0, compiled if os.path.exists(compiled) else path)
    try:
        from rankdeck_agent.__main__ import main
    except ImportError:
        if sys.path[0] == path:
            raise
        os.unlink(compiled)  # cut short: this session makes it again
        sys.path[0] = path
        from rankdeck_agent.__main__ import main

    sys.stdout.flush()
    os._exit(main(["session", folder]))


begin(read_exactly)  # noqa: F821 - given by the line before this text
