"""One request, answered in a child process: whatever blocks there blocks nobody else."""

import os
import signal
import time

from . import descriptors, limited, signals, wire
from .encoding import text
from .errors import AgentError

_PATIENCE = 2.0
"""Seconds after its time limit in which a job ends by itself; one that hangs in the kernel does not."""


class Job:
    """A request that runs in its own process, and its frames.

    Attributes:
        fd: its pipe, readable when there is something of it.
        deadline: when it is given up (monotonic).
    """

    def __init__(self, function, request, seconds):
        """Start `function(request, send)` in a child: `send(header, body)` streams, the result replies.

        Args:
            function: returns `(header, body)`; may raise AgentError.
            request: the request's header.
            seconds: after so long it is killed and answered with a `timeout` error.
        """
        self.id = request["id"]
        self.op = request["op"]
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds + _PATIENCE
        self.answered = False
        self._decoder = wire.Decoder()
        self.fd, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(function, request, write, seconds)
        os.close(write)
        os.set_blocking(self.fd, False)

    def read(self):
        """The frames that have come, as `(header, body)`; None when the child has ended."""
        try:
            data = os.read(self.fd, 1 << 20)
        except OSError:
            return []
        if not data:
            return None
        frames = self._decoder.feed(data)
        for header, _ in frames:
            header["id"] = self.id
            if "ok" in header:
                self.answered = True
        return frames

    def kill(self):
        """End it and what it started."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except OSError:
            pass

    def close(self):
        """Let go of the pipe, and of the child's remains if it has any."""
        os.close(self.fd)

    def missing_answer(self):
        """What is replied when the child ended without a word."""
        return {
            "id": self.id,
            "ok": False,
            "error": AgentError(
                "timeout",
                "{} did not come to an end within {:g} s".format(self.op, self.seconds),
                "a file system or a tool on this node may hang",
            ).as_json(),
        }


def _end(number, frame):
    limited.end_groups()
    os._exit(1)


def _run(function, request, write, seconds):
    """The child: never returns."""
    try:
        os.setpgid(0, 0)
        signals.reset()
        # A supervisor that ends while it is written to must not end us without a word.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, _end)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # also ends it if the session dies
        null = os.open(os.devnull, os.O_RDWR)
        descriptors.point(null, 0, 1)
        descriptors.close_all_but((write,))

        def send(header, body=b""):
            data = wire.encode(header, body)
            while data:
                data = data[os.write(write, data) :]

        try:
            header, body = function(request, send)
            reply = {"ok": True}
            reply.update(header)
            send(reply, body)
        except AgentError as error:
            send({"ok": False, "error": error.as_json()})
        except OSError as error:
            name = error.filename
            where = text(name) if isinstance(name, bytes) else name
            message = "{}: {}".format(where, error.strerror) if where else str(error)
            send({"ok": False, "error": AgentError("system", message).as_json()})
        except Exception:  # noqa: BLE001 - a process's boundary
            import traceback  # its import costs a tenth of the agent's start

            trouble = AgentError("internal", traceback.format_exc(limit=5), "please report this")
            send({"ok": False, "error": trouble.as_json()})
        os._exit(0)
    finally:
        os._exit(1)
