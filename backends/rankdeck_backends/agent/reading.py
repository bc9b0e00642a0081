"""Looking into files for the client: pieces of logs, and the token that tells a shared file system."""

import os

from .encoding import raw
from .errors import AgentError
from .requests import field
from .run_folder import RunFolder, log_file, read_json

LONGEST = 1 << 20
"""Bytes that one `read` gives at most."""


def read(request, send):
    """`read`: a piece of a log. Replies its size and the bytes."""
    folder = RunFolder(field(request, "dir", str))
    plan = read_json(folder.plan)
    if plan is None:
        raise AgentError("missing", "{}: no run is there".format(field(request, "dir", str)))
    try:
        path = os.path.join(folder.log_dir(plan), log_file(field(request, "name", str), plan["node_rank"]))
    except ValueError as error:
        raise AgentError("bad_request", str(error))
    offset = field(request, "offset", int)
    length = field(request, "length", int)
    if offset < 0 or length < 0:
        raise AgentError(
            "bad_request", "read: offset {} and length {} must not be negative".format(offset, length)
        )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {"size": 0}, b""
    return {"size": os.fstat(fd).st_size}, os.pread(fd, min(length, LONGEST), offset)


def shared(request, send):
    """`shared`: whether this file holds this token here too."""
    token = raw(field(request, "token", str))
    try:
        fd = os.open(raw(field(request, "path", str)), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        return {"shared": bool(token) and os.read(fd, len(token) + 2).strip() == token.strip()}, b""
    except OSError:
        return {"shared": False}, b""
