"""The session: one loop that takes requests from stdin and answers on stdout, never blocking."""

import errno
import os
import signal
import socket
import sys
import time
from collections import deque
from functools import partial

from . import compiled, descriptors, identity, processes, wire
from .encoding import text
from .errors import AgentError
from .loop import Loop

SILENCE_LIMIT = 60.0
"""Seconds without any request after which the client is taken for lost."""
OUTPUT_LIMIT = 1 << 20
"""While more than this waits to be written, no log bytes are read."""
JOBS_AT_ONCE = 16


def serve(folder):
    """Run a session on standard input and output until either ends.

    Args:
        folder: the node folder.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    compiled.keep(sys.path[0])
    session = Session(folder)
    session.run()
    return 0


class Session:
    """One client's conversation with this node."""

    def __init__(self, folder):
        self.folder = folder
        self.loop = Loop()
        self.output = wire.Outbox(1)
        self._decoder = wire.Decoder()
        self._jobs = {}
        self._waiting = deque()
        self._follows = {}
        self._open = True
        self._operations = None
        self._last_request = time.monotonic()

    def run(self):
        """Until standard input ends, standard output breaks, or the client is silent for too long."""
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self.output.put(wire.MARKER)
        self.send(hello(self.folder))
        self.output.flush()
        from . import operations  # most of the agent: read and compiled while the hello is under way

        self._operations = operations
        descriptors.raise_limit()
        self.loop.watch(0, self._read)
        watching_output = False
        while self._open:
            self._open = self.output.flush() and self._open
            if bool(self.output.size) != watching_output:
                watching_output = bool(self.output.size)
                if watching_output:
                    self.loop.watch(1, lambda: None, writing=True)
                else:
                    self.loop.forget(1)
            self.loop.step(self._patience())
            self._tick()
        self._close()

    def send(self, header, body=b""):
        """Queue one frame."""
        self.output.put(wire.encode(header, body))

    def has_room(self):
        """Whether more log bytes may be read."""
        return self.output.size < OUTPUT_LIMIT

    def start_job(self, function, request, seconds):
        """Answer a request in a child, or later if many run already."""
        self._waiting.append((function, request, seconds))
        self._start_waiting()

    def revive(self, folder):
        """Start a supervisor where one has died; what comes of it is seen by the follow itself."""
        function, seconds = self._operations.RESUME
        self.start_job(function, {"id": None, "op": "resume", "dir": text(folder.path)}, seconds)

    def _start_waiting(self):
        while self._waiting and len(self._jobs) < JOBS_AT_ONCE:
            job = self._operations.Job(*self._waiting.popleft())
            self._jobs[job.fd] = job
            self.loop.watch(job.fd, partial(self._read_job, job))

    def _patience(self):
        now = time.monotonic()
        seconds = self._last_request + SILENCE_LIMIT - now
        for follow in self._follows.values():
            seconds = min(seconds, follow.due() - now)
        for job in self._jobs.values():
            seconds = min(seconds, job.deadline - now)
        if not self.has_room():
            return max(0.02, seconds)
        return max(0.0, seconds)

    def _tick(self):
        now = time.monotonic()
        if now - self._last_request > SILENCE_LIMIT:
            self._open = False
        for follow in list(self._follows.values()):
            if follow.due() <= now:
                follow.poll(now)
        for key, follow in list(self._follows.items()):
            if follow.ended:
                follow.close()
                del self._follows[key]
        for job in list(self._jobs.values()):
            if now > job.deadline:
                job.kill()
                self._end_job(job)
        self._reap()

    def _reap(self):
        """Collect ended children: jobs, and the samplers' tools."""
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except OSError:
                return

    def _read(self):
        try:
            data = os.read(0, 1 << 18)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return
            data = b""
        if not data:
            self._open = False
            return
        try:
            frames = self._decoder.feed(data)
        except wire.ProtocolError as error:
            self.send({"ev": "protocol_error", "message": str(error)})
            self.output.flush()
            self._open = False
            return
        for header, _ in frames:
            self._last_request = time.monotonic()
            self._request(header)

    def _request(self, header):
        try:
            if not isinstance(header.get("id"), int):
                raise AgentError("bad_request", "a request without a number as its id")
            self._dispatch(header)
        except AgentError as error:
            self.send({"id": header.get("id"), "ok": False, "error": error.as_json()})

    def _dispatch(self, request):
        op = request.get("op")
        if op == "ping":
            self.send({"id": request["id"], "ok": True, "time": time.time()})
        elif op == "follow":
            self._follows[request["id"]] = self._operations.Follow(self, request)
        elif op in ("watch", "unfollow"):
            follow = self._follows.get(request.get("follow"))
            if follow is None:
                raise AgentError("missing", "{}: there is no follow {!r}".format(op, request.get("follow")))
            if op == "watch":
                follow.change(request)
            else:
                follow.finish(None)
            self.send({"id": request["id"], "ok": True})
        elif op == "end":
            for job in self._jobs.values():
                if job.op == "listen" and job.id == request.get("job"):
                    job.kill()
            self.send({"id": request["id"], "ok": True})
        elif op in self._operations.BY_CHILD:
            function, seconds = self._operations.limit_of(request)
            request["folder"] = self.folder
            self.start_job(function, request, seconds)
        else:
            allowed = sorted(list(self._operations.BY_CHILD) + ["ping", "follow", "watch", "unfollow", "end"])
            raise AgentError(
                "bad_request",
                "op {!r}; allowed: {}".format(op, ", ".join(allowed)),
                "this agent speaks protocol {}".format(wire.PROTOCOL),
            )

    def _read_job(self, job):
        frames = job.read()
        if frames is None:
            self._end_job(job)
            return
        for header, body in frames:
            if job.id is not None:
                self.send(header, body)

    def _end_job(self, job):
        self.loop.forget(job.fd)
        del self._jobs[job.fd]
        job.close()
        if not job.answered and job.id is not None:
            self.send(job.missing_answer())
        self._start_waiting()

    def _close(self):
        for follow in self._follows.values():
            follow.close()
        for job in self._jobs.values():
            if job.op not in ("start", "resume"):
                job.kill()
        time.sleep(0.01)
        self._reap()


def hello(folder):
    """The first frame: who this is."""
    return {
        "ev": "hello",
        "protocol": wire.PROTOCOL,
        "python": identity.python_version(),
        "host": socket.gethostname(),
        "uid": os.getuid(),
        "user": identity.user_name(),
        "home": text(identity.home()),
        "pid": os.getpid(),
        "boot": processes.boot_id(),
        "time": time.time(),
        "folder": text(os.fsencode(folder)),
    }
