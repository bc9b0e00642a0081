"""Looking into files for the client: pieces and hashes of logs, and the token of a shared file system."""

import binascii
import hashlib
import os
import time

from .encoding import raw
from .errors import AgentError
from .requests import field
from .run_folder import RunFolder, log_file, read_json

LONGEST = 1 << 20
"""Bytes that one `read` gives at most."""
NICE = 10
"""How much other processes come before hashing: the next run may be on this node already."""


def read(request, send):
    """`read`: a piece of a log. Replies its size and the bytes."""
    path = _paths(request, [field(request, "name", str)])[0]
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


def digest(request, send):
    """`digest`: the size of each of these logs now and, with `hash`, the SHA-256 of that many bytes.

    Streams one `digest` a log as it is known, and `hashing` (bytes read since the last one) once a second
    while a large log is read. A log that is not there has no bytes.
    """
    names = field(request, "names", list)
    hashed = field(request, "hash", bool, False)
    if hashed:
        os.nice(NICE)
    hearer = _Hearer(send)
    for number, path in enumerate(_paths(request, names)):
        size, told = _digest(path, hashed, hearer)
        send({"ev": "digest", "name": names[number], "size": size, "sha256": told})
    return {}, b""


def _paths(request, names):
    """The files (bytes) of logs as the protocol names them."""
    folder = RunFolder(field(request, "dir", str))
    plan = read_json(folder.plan)
    if plan is None:
        raise AgentError("missing", "{}: no run is there".format(request["dir"]))
    try:
        return [os.path.join(folder.log_dir(plan), log_file(name, plan["node_rank"])) for name in names]
    except (ValueError, AttributeError) as error:
        raise AgentError("bad_request", "{}: {}".format(request["op"], error))


def _digest(path, hashed, hearer):
    """`(size, SHA-256 or None)` of a file; what is added meanwhile does not count."""
    made = hashlib.sha256()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, made.hexdigest() if hashed else None
    try:
        size = os.fstat(fd).st_size
        if not hashed:
            return size, None
        left = size
        while left:
            data = os.read(fd, min(left, LONGEST))
            if not data:  # cut off while it was read
                break
            made.update(data)
            left -= len(data)
            hearer.add(len(data))
        return size - left, made.hexdigest()
    finally:
        os.close(fd)


class _Hearer:
    """Tells once a second how far the hashing is."""

    def __init__(self, send):
        self._send = send
        self._bytes = 0
        self._told = time.monotonic()

    def add(self, count):
        self._bytes += count
        if time.monotonic() - self._told >= 1.0:
            self._send({"ev": "hashing", "bytes": self._bytes})
            self._bytes, self._told = 0, time.monotonic()


def shared(request, send):
    """`shared`: whether this file holds this token here too, and files can be written beside it."""
    token, path = raw(field(request, "token", str)), raw(field(request, "path", str))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            seen = bool(token) and os.read(fd, len(token) + 2).strip() == token.strip()
        finally:
            os.close(fd)
        return {"shared": seen and _is_writable(path)}, b""
    except OSError:
        return {"shared": False}, b""


def _is_writable(path):
    """Tried out: a file system may be mounted read-only here, or refuse what its modes allow."""
    trial = path + b"-" + binascii.hexlify(os.urandom(8))
    fd = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.write(fd, b".") == 1
    finally:
        os.close(fd)
        os.unlink(trial)
