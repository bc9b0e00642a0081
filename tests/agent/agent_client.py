"""A small client: one agent session over a pipe, with a reader thread and waits that have limits."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankdeck_backends import package

LIMIT = 60.0


class Refused(Exception):
    """The agent replied with an error."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(f"{error['kind']}: {error['message']}")
        self.kind = error["kind"]
        self.message = error["message"]


class Client:
    """A session on this machine."""

    def __init__(
        self,
        folder: Path | None,
        *,
        python: str | None = None,
        argv: list[str] | None = None,
        env: dict[str, str] | None = None,
        boot: bytes | None = None,
    ) -> None:
        environment = dict(os.environ)
        if folder is not None:
            environment["RANKDECK_NODE_DIR"] = str(folder)
        environment.update(env or {})
        command = package.bootstrap_command()
        if python is not None:
            command = command.replace("for p in python3 ", f"for p in {python} ")
        self.process = subprocess.Popen(
            argv if argv is not None else ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        self.frames: list[tuple[dict[str, Any], bytes]] = []
        self.noise = b""
        self.stderr = b""
        self._changed = threading.Condition()
        self._id = 0
        self._over = False
        self.pause = threading.Event()
        """While it is clear, nothing is read from the session."""
        self.pause.set()
        for target in (self._read, self._read_stderr):
            threading.Thread(target=target, daemon=True).start()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(package.bootstrap_input() if boot is None else boot)
            self.process.stdin.flush()

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        marker = b"\n\0RANKDECK-AGENT-1\n"
        data = b""
        while marker not in data:
            part = stdout.read1(65536)
            if not part:
                break
            data += part
        self.noise, _, data = data.partition(marker)
        while True:
            while len(data) >= 8:
                header, body = struct.unpack(">II", data[:8])
                if len(data) < 8 + header + body:
                    break
                frame = json.loads(data[8 : 8 + header]), data[8 + header : 8 + header + body]
                data = data[8 + header + body :]
                with self._changed:
                    self.frames.append(frame)
                    self._changed.notify_all()
            self.pause.wait(LIMIT)
            part = stdout.read1(1 << 20)
            if not part:
                break
            data += part
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for part in iter(lambda: self.process.stderr.read1(65536), b""):
            self.stderr += part

    def wait_for(self, condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
        """Until the condition holds; it is asked again whenever a frame has come."""
        deadline = time.monotonic() + limit
        with self._changed:
            while True:
                found = condition()
                if found:
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or self._over:
                    raise AssertionError(
                        f"no {what} within {limit} s; last: {self.frames[-5:]} {self.stderr!r}"
                    )
                self._changed.wait(left)

    def hello(self) -> dict[str, Any]:
        return self.wait_for(lambda: self.frames and self.frames[0][0], "hello")

    def send(self, op: str, **fields: Any) -> int:
        self.hello()
        self._id += 1
        header = json.dumps({"id": self._id, "op": op, **fields}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack(">II", len(header), 0) + header)
        self.process.stdin.flush()
        return self._id

    def reply(self, number: int, limit: float = LIMIT) -> tuple[dict[str, Any], bytes]:
        def find() -> tuple[dict[str, Any], bytes] | None:
            return next((f for f in self.frames if f[0].get("id") == number and "ok" in f[0]), None)

        header, body = self.wait_for(find, f"reply to {number}", limit)
        if not header["ok"]:
            raise Refused(header["error"])
        return header, body

    def ask(self, op: str, limit: float = LIMIT, **fields: Any) -> dict[str, Any]:
        return self.reply(self.send(op, **fields), limit)[0]

    def of(self, number: int, ev: str) -> list[dict[str, Any]]:
        """What a streaming request has sent so far."""
        return [h for h, _ in self.frames if h.get("id") == number and h.get("ev") == ev]

    def events(self, number: int, ev: str | None = None) -> list[dict[str, Any]]:
        found = [h["event"] for h in self.of(number, "event")]
        return [event for event in found if ev in (None, event["ev"])]

    def wait_event(self, number: int, ev: str, limit: float = LIMIT, **fields: Any) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            for event in self.events(number, ev):
                if all(event[name] == value for name, value in fields.items()):
                    return event
            return None

        return self.wait_for(find, f"event {ev} {fields}", limit)

    def log(self, number: int, name: str, start: int = 0) -> bytes:
        """The bytes of one log as they came; they must be contiguous."""
        parts = []
        offset = start
        for header, body in list(self.frames):
            if header.get("id") != number or header.get("ev") != "logs":
                continue
            at = 0
            for told, begin, length in header["parts"]:
                if told == name:
                    assert begin == offset, header
                    parts.append(body[at : at + length])
                    offset += length
                at += length
            assert at == len(body), header
        return b"".join(parts)

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
