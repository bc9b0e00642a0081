"""Frames: two big-endian 32-bit lengths, a JSON header, a body of raw bytes."""

import errno
import json
import os
import struct
from collections import deque

PROTOCOL = 1
MARKER = b"\n\0RANKDECK-AGENT-1\n"
HEADER_LIMIT = 64 << 20
"""Bytes. A plan has each rank's whole environment: a profile's size, 1 MiB at most, for each of the ranks."""
BODY_LIMIT = 8 << 20
WRITE_SIZE = 256 << 10

_LENGTHS = struct.Struct(">II")


class ProtocolError(Exception):
    """The other side sent what is no frame."""


def encode(header, body=b""):
    """One frame as bytes."""
    return encode_text(json.dumps(header, separators=(",", ":")), body)


def encode_text(header, body=b""):
    """One frame whose header is JSON text already (ASCII): for frames that are made by the thousand."""
    data = header.encode("ascii")
    return _LENGTHS.pack(len(data), len(body)) + data + body


class Decoder:
    """Cuts a byte stream into frames."""

    def __init__(self):
        self._buffer = bytearray()

    def feed(self, data):
        """Take bytes; returns the list of `(header, body)` that are complete now.

        Raises:
            ProtocolError: a length over its limit, or a header that is no JSON object.
        """
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= _LENGTHS.size:
            header_size, body_size = _LENGTHS.unpack_from(self._buffer, start)
            if header_size > HEADER_LIMIT or body_size > BODY_LIMIT:
                raise ProtocolError(
                    "a frame of {} + {} bytes; at most {} + {} are allowed".format(
                        header_size, body_size, HEADER_LIMIT, BODY_LIMIT
                    )
                )
            middle = start + _LENGTHS.size + header_size
            end = middle + body_size
            if len(self._buffer) < end:
                break
            frames.append(
                (_header(self._buffer[start + _LENGTHS.size : middle]), bytes(self._buffer[middle:end]))
            )
            start = end
        del self._buffer[:start]
        return frames


def _header(data):
    try:
        header = json.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ProtocolError("a header is no JSON: {}".format(error))
    if not isinstance(header, dict):
        raise ProtocolError("a header is no JSON object: {:.80}".format(data.decode("utf-8", "replace")))
    return header


class Outbox:
    """Bytes that wait for a descriptor which must not block us."""

    def __init__(self, fd):
        self.fd = fd
        self.size = 0
        self._waiting = deque()

    def put(self, data):
        """Add bytes to the end."""
        self._waiting.append(data)
        self.size += len(data)

    def flush(self):
        """Write what can be written at once; returns False when the reader has gone."""
        while self._waiting:
            parts = [self._waiting.popleft()]
            length = len(parts[0])
            while self._waiting and length < WRITE_SIZE:
                parts.append(self._waiting.popleft())
                length += len(parts[-1])
            data = b"".join(parts) if len(parts) > 1 else parts[0]
            try:
                written = os.write(self.fd, data)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    self._waiting.appendleft(data)
                    return True
                return False
            self.size -= written
            if written < len(data):
                self._waiting.appendleft(data[written:])
                return True
        return True
