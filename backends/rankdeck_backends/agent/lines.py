"""A TCP connection of text lines that never blocks the supervisor."""

import errno
import json
import socket

UNPROVEN_LIMIT = 1024
"""Bytes in a line from someone who has not proven who it is."""
LINE_LIMIT = 1 << 20


class Lines:
    """One connection, its lines handed to `on_line(bytes)`, its end told to `on_end(why)`, once.

    Attributes:
        limit: the most bytes that a line may have; whoever sends more is let go.
    """

    def __init__(self, loop, connection, on_line, on_end):
        connection.setblocking(False)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            pass  # it has gone already, which the first read tells
        self.limit = UNPROVEN_LIMIT
        self._loop = loop
        self._socket = connection
        self._fd = connection.fileno()
        self._on_line = on_line
        self._on_end = on_end
        self._buffer = b""
        loop.watch(self._fd, self._read)

    def send(self, line):
        """Send a line (bytes). One that takes no more has not read for long: it is let go."""
        if self._socket is None:
            return
        try:
            if self._socket.send(line) == len(line):
                return
            why = "it takes no more"
        except OSError as error:
            why = error.strerror or str(error)
        self.end(why)

    def end(self, why):
        """Close it, and tell."""
        if self._socket is not None:
            self.close()
            self._on_end(why)

    def close(self):
        """Close it; nothing is told."""
        if self._socket is not None:
            self._loop.forget(self._fd)
            self._socket.close()
            self._socket = None

    def _read(self):
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return
            self.end(error.strerror or str(error))
            return
        if not data:
            self.end("closed by the other end")
            return
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        for line in lines:
            if self._socket is None:
                return
            if len(line) > self.limit:
                self.end("it sends what is no message")
                return
            self._on_line(line)
        if self._socket is not None and len(self._buffer) > self.limit:
            self.end("it sends what is no message")


def object_of(line):
    """The JSON object in a line, or None if it is none."""
    try:
        message = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def line_of(message):
    """A message as a line (bytes)."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
