"""The supervisor's unix socket: JSON lines, one object each way per line."""

import errno
import json
import os
import socket

from .accepting import next_caller

_PATH_LIMIT = 107
"""Bytes in a unix socket's path on Linux (unix(7): 108 with the final NUL)."""


def _with_address(path, use):
    """Call `use(address)` with an address that fits, whatever the path's length."""
    if len(path) <= _PATH_LIMIT:
        return use(path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return use("/proc/self/fd/{}/".format(folder).encode("ascii") + os.path.basename(path))
    finally:
        os.close(folder)


def listen(path):
    """A non-blocking listening socket at `path` (bytes), in place of any dead one. Raises OSError."""
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _with_address(path, listener.bind)
        listener.listen(256)
        os.chmod(path, 0o600)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path, seconds):
    """A socket that is connected to the supervisor. Raises OSError: there is none."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.settimeout(seconds)
    try:
        _with_address(path, caller.connect)
    except OSError:
        caller.close()
        raise
    return caller


def line_of(message):
    """A message as bytes."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def tell(path, message, seconds=5.0):
    """Send one message and wait for its answer. Raises OSError: there is none, or none in time."""
    caller = connect(path, seconds)
    try:
        caller.sendall(line_of(message))
        lines = LineReader()
        while True:
            data = caller.recv(65536)
            if not data:
                raise OSError(errno.EPIPE, "the supervisor closed its control socket")
            for answer in lines.feed(data):
                return answer
    finally:
        caller.close()


class LineReader:
    """Cuts a stream into JSON lines; what is no JSON object is left out."""

    LIMIT = 4 << 20

    def __init__(self):
        self._buffer = b""

    def feed(self, data):
        """The messages that are complete now."""
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        if len(self._buffer) > self.LIMIT:
            self._buffer = b""
        return [message for message in map(_parsed, lines) if message is not None]


def _parsed(line):
    try:
        message = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


class ControlServer:
    """The supervisor's end: takes callers, hands their messages to `handle(caller, message)`."""

    def __init__(self, loop, path, handle):
        self._loop = loop
        self._handle = handle
        self._listener = listen(path)
        self.callers = set()
        loop.watch(self._listener.fileno(), self._accept)

    def _accept(self):
        while True:
            accepted = next_caller(self._loop, self._listener)
            if accepted is None:
                return
            caller = Caller(self, accepted)
            self.callers.add(caller)
            self._loop.watch(caller.fd, caller.read)

    def dispatch(self, caller, message):
        """Hand a message on."""
        self._handle(caller, message)

    def drop(self, caller):
        """Let a caller go."""
        self._loop.forget(caller.fd)
        self.callers.discard(caller)
        caller.socket.close()

    def close(self):
        """Let everybody go."""
        for caller in list(self.callers):
            self.drop(caller)
        self._loop.forget(self._listener.fileno())
        self._listener.close()


class Caller:
    """One connection to the supervisor."""

    def __init__(self, server, accepted):
        accepted.setblocking(False)
        self.socket = accepted
        self.fd = accepted.fileno()
        self._server = server
        self._lines = LineReader()

    def read(self):
        """Take what has come."""
        try:
            data = self.socket.recv(65536)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return
            data = b""
        if not data:
            self._server.drop(self)
            return
        for message in self._lines.feed(data):
            self._server.dispatch(self, message)

    def send(self, message):
        """Send one message; a caller that does not read (its buffer is full) is let go: it may call again."""
        data = line_of(message)
        try:
            if self.socket.send(data) == len(data):
                return
        except OSError:
            pass
        self._server.drop(self)

    def send_whole(self, message, seconds=5.0):
        """Send one message of any length to a caller that waits for it; one that does not is let go."""
        self.socket.settimeout(seconds)
        try:
            self.socket.sendall(line_of(message))
            self.socket.setblocking(False)
        except OSError:
            self._server.drop(self)
