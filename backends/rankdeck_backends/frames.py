"""The frames of the agent's protocol: bytes in, headers and bodies out. The rules: docs/agent-protocol.md."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

MARKER = b"\n\0RANKDECK-AGENT-1\n"
"""What the agent writes before its first frame. The zero byte keeps text from holding it by chance."""
MAX_HEADER = 64 << 20
"""The agent's `wire.HEADER_LIMIT`."""
MAX_BODY = 8 << 20
KEPT_NOISE = 64 << 10
"""How much of what came before the marker is kept for messages: the last bytes, where shells say why."""

_LENGTHS = struct.Struct(">II")


class FrameError(Exception):
    """The bytes are no frames. The connection cannot go on: where the next frame starts is not known."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    body: bytes = b""


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """The frame's bytes.

    Header strings may hold lone surrogates (file names that are no UTF-8, as `os.fsdecode` gives them): they
    travel as JSON escapes.

    Raises:
        FrameError: header or body is longer than the other side takes.
    """
    data = json.dumps(header, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_HEADER:
        raise FrameError(f"a header of {len(data)} bytes is over the limit of {MAX_HEADER}")
    if len(body) > MAX_BODY:
        raise FrameError(f"a body of {len(body)} bytes is over the limit of {MAX_BODY}")
    return _LENGTHS.pack(len(data), len(body)) + data + body


class FrameParser:
    """Takes bytes in pieces of any size and gives back whole frames.

    Until the marker has been seen everything is noise (what start-up files printed): only its end is kept.
    """

    def __init__(self, *, marker: bytes = MARKER) -> None:
        self._marker = marker
        self._buffer = bytearray()
        self.noise = b""
        """The end of what came before the marker; all that came, while it has not come."""
        self.started = not marker
        """Whether the marker has been seen."""

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes; return the frames that are now complete, in order.

        Raises:
            FrameError: a length is over its limit, or a header is not a JSON object.
        """
        self._buffer += data
        if not self.started and not self._find_marker():
            return []
        frames: list[Frame] = []
        position = 0
        with memoryview(self._buffer) as view:
            while len(view) - position >= _LENGTHS.size:
                header_length, body_length = _LENGTHS.unpack_from(view, position)
                if not 0 < header_length <= MAX_HEADER or body_length > MAX_BODY:
                    start = bytes(view[position : position + 60])
                    raise FrameError(
                        f"a frame of {header_length} + {body_length} bytes"
                        f" (at most {MAX_HEADER} + {MAX_BODY}), "
                        f"starting with {start!r}"
                    )
                header_at = position + _LENGTHS.size
                body_at = header_at + header_length
                end = body_at + body_length
                if end > len(view):
                    break
                frames.append(Frame(_header(bytes(view[header_at:body_at])), bytes(view[body_at:end])))
                position = end
        if position:
            del self._buffer[:position]
        return frames

    def _find_marker(self) -> bool:
        at = self._buffer.find(self._marker)
        if at < 0:
            # The marker may be cut in two: its first part stays in the buffer.
            surplus = len(self._buffer) - (len(self._marker) - 1)
            if surplus > 0:
                self._keep_noise(surplus)
            return False
        self._keep_noise(at)
        del self._buffer[: len(self._marker)]
        self.started = True
        return True

    def _keep_noise(self, count: int) -> None:
        self.noise = (self.noise + bytes(self._buffer[:count]))[-KEPT_NOISE:]
        del self._buffer[:count]

    def ended(self) -> bytes:
        """Call when no more bytes will come.

        Returns:
            The noise if the agent never started, else what there is of a frame that was cut.
        """
        if not self.started:
            self._keep_noise(len(self._buffer))
            return self.noise
        return bytes(self._buffer)


def _header(data: bytes) -> dict[str, Any]:
    try:
        header = msgspec.json.decode(data)
    except RecursionError:
        raise FrameError(f"a header that is nested too deep: {data[:60]!r}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # msgspec is strict about lone surrogates, the way Python spells names that are no UTF-8; json is not.
        try:
            header = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise FrameError(f"a header that is no JSON ({error}): {data[:60]!r}") from None
    if not isinstance(header, dict):
        raise FrameError(f"a header that is no JSON object: {data[:60]!r}")
    return header
