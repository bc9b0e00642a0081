"""`follow`: what happens in a run, as it happens: events, log bytes, sizes, samples."""

import errno
import os
import time

from . import control, start, wire
from .errors import AgentError
from .events import parse_events
from .requests import field
from .run_folder import RunFolder, log_file, log_names, log_stem, read_json
from .samples import Sampler
from .tail import Tail

GROWING, QUIET = 0.02, 0.1
"""Seconds between looks at the files: while something grows, and else."""
PER_FILE, GROWING_MOST = 0.0003, 0.04
"""Seconds that each file which grew adds to that, and the most it becomes: what following costs the login
side depends on the number of pieces, so many busy ranks are told in fewer and larger ones."""
PIECES = 256 << 10
"""Bytes after which a frame takes no further file's piece."""
QUIET_AFTER = 1.0
SLOW = 1.0
"""Seconds between looks at what need not be seen at once: new files, sizes, the supervisor."""
REVIVE_PAUSE = 10.0


class Follow:
    """One running follow. The session calls `poll` when it is `due`."""

    def __init__(self, session, request):
        """Begin to follow.

        Raises:
            AgentError: there is no such run, or the request is wrong.
        """
        self._session = session
        self._id = request["id"]
        self._folder = RunFolder(field(request, "dir", str))
        self._plan = read_json(self._folder.plan)
        if self._plan is None:
            raise AgentError("missing", "{}: no run is there".format(request["dir"]))
        self._seen = field(request, "since", int, 0)
        seconds = field(request, "samples", float, 0.0)
        self._log_dir = self._folder.log_dir(self._plan)
        self._names = log_names(self._plan)
        self._tails = {}
        self._order = []
        self._closed_tails = []
        self._events_fd = None
        self._events_offset = 0
        self._events_rest = b""
        self._state = None
        self._ended_at = None
        self._turn = 0
        self._due = self._slow_due = 0.0
        self._grew_at = time.monotonic()
        self._sizes = {}
        self._link = None
        self._lines = None
        self._alive = None
        self._revive_at = 0.0
        self._sampler = Sampler(session, self._folder, self._plan, seconds) if seconds > 0 else None
        self.ended = False
        self.change(request)

    def change(self, request):
        """`watch`: other logs. One that goes on being watched keeps its place unless an offset is given."""
        wanted = request.get("logs", [])
        self._all = wanted == "all"
        names = self._names if self._all else field(request, "logs", list, [])
        offsets = self._offsets = field(request, "offsets", dict, {})
        tails = {}
        for name in names:
            try:
                path = self._path(name)
            except (ValueError, AttributeError) as error:
                raise AgentError("bad_request", "logs: {}".format(error))
            offset = offsets.get(name)
            known = self._tails.get(name)
            if known is not None and offset is None:
                tails[name] = known
                continue
            if offset is not None and (not isinstance(offset, int) or offset < 0):
                raise AgentError(
                    "bad_request", "offsets: {} is {!r}; allowed: 0 or more".format(name, offset)
                )
            tails[name] = Tail(name, path, offset or 0)
        for name, tail in self._tails.items():
            if tails.get(name) is not tail:
                tail.close()
        self._tails = tails
        self._order = list(tails.values())
        self._due = self._slow_due = 0.0

    def due(self):
        """When to poll next (monotonic clock)."""
        return self._due

    def poll(self, now):
        """Send what is new."""
        slow = now >= self._slow_due
        if slow:
            self._slow_due = now + SLOW
            self._look_around(now)
        grew = self._send_events()
        complete, sent = self._send_logs()
        if grew or sent:
            self._grew_at = now
        if slow:
            self._send_sizes(now)
        if self._sampler is not None:
            self._sampler.poll(now, self._send_sample)
        quiet = now - self._grew_at > QUIET_AFTER
        self._due = now + (QUIET if quiet else min(GROWING_MOST, GROWING + PER_FILE * sent))
        if self._state is not None and complete and now > self._ended_at:
            self._send_sizes(now)
            self.finish(self._state)

    def finish(self, state):
        """Send the final reply."""
        if not self.ended:
            self.ended = True
            self._session.send({"id": self._id, "ok": True, "state": state})

    def close(self):
        """Let go of all descriptors."""
        for tail in self._order:
            tail.close()
        if self._events_fd is not None:
            os.close(self._events_fd)
            self._events_fd = None
        self._unlink()
        if self._sampler is not None:
            self._sampler.close()

    def _emit(self, ev, body=b"", **fields):
        header = {"id": self._id, "ev": ev}
        header.update(fields)
        self._session.send(header, body)

    def _send_sample(self, sample):
        self._emit("sample", sample=sample)

    # -- events -----------------------------------------------------------------------------------------

    def _send_events(self):
        if self._events_fd is None:
            try:
                self._events_fd = os.open(self._folder.events, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False
        grew = False
        while True:
            data = os.pread(self._events_fd, 1 << 18, self._events_offset)
            if not data:
                return grew
            grew = True
            self._events_offset += len(data)
            lines = self._events_rest + data
            end = lines.rfind(b"\n") + 1
            self._events_rest = lines[end:]
            for event in parse_events(lines[:end]):
                self._pass_on(event)

    def _pass_on(self, event):
        if event["ev"] == "node_ended":
            self._open_new()
            self._state = event["state"]
            self._ended_at = time.monotonic()
        elif event["ev"] == "rank_started":
            self._slow_due = 0.0
            self._add_logs(log_stem(event["rank"], event.get("attempt", 0)))
            self._open_new()
        if self._sampler is not None:
            self._sampler.hear(event)
        if event["seq"] > self._seen:
            self._seen = event["seq"]
            self._emit("event", event=event)

    # -- logs --------------------------------------------------------------------------------

    def _add_logs(self, stem):
        """Of a rank whose number was not known, or of one that was started again."""
        for name in ("{}.{}".format(stem, stream) for stream in ("out", "err")):
            if name in self._names:
                continue
            self._names.append(name)
            if self._all:
                self._tails[name] = Tail(name, self._path(name), self._offsets.get(name, 0))
                self._order.append(self._tails[name])

    def _path(self, name):
        return os.path.join(self._log_dir, log_file(name, self._plan["node_rank"]))

    def _open_new(self):
        for tail in self._order:
            tail.open()

    def _send_logs(self):
        """One piece a file and turn, so that a talkative rank does not silence the others."""
        session = self._session
        order = self._order
        count = len(order)
        complete = True
        sent = size = 0
        parts, pieces = [], []
        for step in range(count):
            tail = order[(self._turn + step) % count]
            if tail.fd is None or not tail.waiting():
                continue
            if size >= PIECES or not session.has_room():
                self._put_logs(parts, pieces)
                parts, pieces, size = [], [], 0
                if not session.has_room():
                    self._turn = (self._turn + step) % count
                    return False, sent
            offset = tail.offset
            data = tail.take()
            if data:
                sent += 1
                size += len(data)
                parts.append('["{}",{},{}]'.format(tail.name, offset, len(data)))
                pieces.append(data)
                if tail.waiting():
                    complete = False
        self._put_logs(parts, pieces)
        return complete, sent

    def _put_logs(self, parts, pieces):
        """One frame for many files: what following costs the login side depends on the number of frames."""
        if parts:
            header = '{{"id":{},"ev":"logs","parts":[{}]}}'.format(self._id, ",".join(parts))
            self._session.output.put(wire.encode_text(header, b"".join(pieces)))

    def _send_sizes(self, now):
        changed = {}
        clock = time.time()
        for name in self._names:
            if name in self._tails:
                continue
            try:
                found = os.stat(self._path(name))
            except OSError:
                continue
            if self._sizes.get(name) != found.st_size:
                self._sizes[name] = found.st_size
                changed[name] = [found.st_size, round(max(0.0, clock - found.st_mtime), 3)]
        if changed:
            self._emit("sizes", sizes=changed)

    # -- the supervisor --------------------------------------------------------------------------------

    def _look_around(self, now):
        self._open_new()
        if self._link is None and self._state is None:
            self._reach_supervisor(now)

    def _reach_supervisor(self, now):
        """Hold a line to the supervisor: its end tells at once, and events come that a full disk refused."""
        try:
            link = control.connect(self._folder.socket, 0.5)
        except OSError:
            self._find_dead(now)
            return
        link.setblocking(False)
        self._link, self._lines = link, control.LineReader()
        self._session.loop.watch(link.fileno(), self._hear)
        try:
            link.send(control.line_of({"op": "watch"}))
        except OSError:
            self._unlink()
            return
        self._tell_alive(True)

    def _hear(self):
        try:
            data = self._link.recv(65536)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return
            data = b""
        if not data:
            self._unlink()
            self._slow_due = self._due = 0.0
            return
        for message in self._lines.feed(data):
            self._send_events()
            for event in message.get("unwritten", ()):
                if event["seq"] == self._seen + 1:
                    self._pass_on(event)

    def _unlink(self):
        if self._link is not None:
            self._session.loop.forget(self._link.fileno())
            self._link.close()
            self._link = None

    def _find_dead(self, now):
        self._send_events()
        if self._state is not None:
            return
        state = read_json(self._folder.state)
        if state is None or start.is_supervised(state):
            return
        if state.get("ended"):  # its last event is on no disk
            self._open_new()
            self._state = state["state"]
            self._ended_at = now
            return
        self._tell_alive(False)
        if now >= self._revive_at:
            self._revive_at = now + REVIVE_PAUSE
            self._session.revive(self._folder)

    def _tell_alive(self, alive):
        if self._alive is not alive:
            self._alive = alive
            self._emit("supervisor", alive=alive)
