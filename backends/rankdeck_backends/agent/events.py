"""The node's events: one line each in events.jsonl, written by the supervisor alone."""

import json
import os
import time


class EventLog:
    """Numbers events and appends them; keeps in memory what a full disk does not take, and tries again."""

    def __init__(self, path):
        self._path = path
        self._fd = None
        self._partial = b""
        self.last = 0
        self.unwritten = []
        self.listeners = []
        """Called with each event, written or not."""

    def append(self, ev, **fields):
        """Record one event; returns it."""
        self.last += 1
        event = {"seq": self.last, "t": round(time.time(), 6), "ev": ev}
        event.update(fields)
        self.unwritten.append(event)
        self.flush()
        for listener in self.listeners:
            listener(event)
        return event

    def flush(self):
        """Write what waits; returns the error's text if the disk does not take it, else an empty one."""
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            while self._partial or self.unwritten:
                if not self._partial:
                    self._partial = (
                        json.dumps(self.unwritten[0], separators=(",", ":")).encode("ascii") + b"\n"
                    )
                self._partial = self._partial[os.write(self._fd, self._partial) :]
                if not self._partial:
                    del self.unwritten[0]
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def resume(self):
        """Go on after the events that are there; returns them. A line cut short by a kill is taken off."""
        events, complete = read_events(self._path, 0)
        if events:
            self.last = events[-1]["seq"]
        try:
            if os.stat(self._path).st_size > complete:
                os.truncate(self._path, complete)
        except OSError:
            pass
        return events


def read_events(path, offset):
    """The complete events of a file from a byte offset on, and the offset after the last of them."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except OSError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return parse_events(data[:end]), offset + end


def parse_events(data):
    """Whole lines as events; what is none is left out."""
    events = []
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            event = json.loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("seq"), int):
            events.append(event)
    return events
