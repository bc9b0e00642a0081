"""Who calls on the supervisor's socket, and what they get: shims report, sessions stop, signal and watch."""

import signal

from . import signals
from .control import ControlServer
from .ending import DONE
from .ranks import RUNNING


class Desk:
    """The supervisor's control socket and its callers."""

    def __init__(self, supervisor):
        """Listen. Raises OSError: the socket cannot be made (disk full)."""
        self._supervisor = supervisor
        self._server = ControlServer(supervisor.loop, supervisor.folder.socket, self._handle)
        self._watchers = set()
        self._stoppers = set()
        self._next_progress = 0.0
        supervisor.events.listeners.append(self._show_unwritten)

    def due(self):
        """When those who wait for a stop want to hear again (monotonic), or None."""
        return self._next_progress if self._stoppers else None

    def tick(self, now):
        """Tell them."""
        if not self._stoppers or now < self._next_progress:
            return
        self._next_progress = now + 1.0
        ranks = self._supervisor.roster.ranks.values()
        left = [{"rank": rank.rank, "pid": rank.pid} for rank in ranks if rank.state == RUNNING]
        grace_left = round(self._supervisor.ending.grace_left(), 1)
        self._stoppers &= self._server.callers
        for caller in list(self._stoppers):
            caller.send({"ev": "stopping", "left": left, "grace_left": grace_left})

    def close(self):
        """Tell those who waited how it ended, and let everybody go."""
        self.tell_end()
        self._server.close()

    def tell_end(self):
        """Tell those who waited how it ended."""
        for caller in self._stoppers & self._server.callers:
            caller.send(self._supervisor.result())
        self._stoppers.clear()

    def _handle(self, caller, message):
        op = message.get("op")
        if op == "started":
            self._supervisor.rank_started(message)
            caller.send({"ok": True})
        elif op in ("ended", "start_failed"):
            self._supervisor.roster.ended(message)
            caller.send({"ok": True})
        elif op == "census":
            refusal = self._supervisor.refusal(message)
            caller.send({"ok": False, "message": refusal} if refusal else {"ok": True})
        elif op == "join":
            self._supervisor.joining.ask(caller, message)
        elif op == "join_failed":
            self._supervisor.joining.failed(message["message"])
            caller.send({"ok": True})
        elif op == "launcher_lost":
            self._supervisor.roster.launcher_lost()
            caller.send({"ok": True})
        elif op == "watch":
            self._watchers.add(caller)
            caller.send(self._unwritten())
        elif op == "signal":
            sent = self._supervisor.roster.signal(message.get("ranks"), signals.number(message["signal"]))
            caller.send({"ok": True, "sent": sent})
        elif op == "stop":
            self._stop(caller, message)
        else:
            caller.send({"ok": False, "message": "op {!r}".format(op)})
        for what in message.get("degraded") or ():
            self._supervisor.degraded(what)

    def _stop(self, caller, message):
        if self._supervisor.ending.phase == DONE:
            caller.send(self._supervisor.result())
            return
        self._stoppers.add(caller)
        self._next_progress = 0.0
        if message.get("force"):
            self._supervisor.ending.ask(signal.SIGKILL, 0.0)
        else:
            self._supervisor.ending.ask(signals.number(message["signal"]), message["grace"])

    def _unwritten(self):
        return {"last": self._supervisor.events.last, "unwritten": self._supervisor.events.unwritten}

    def _show_unwritten(self, event):
        """Followers read the file; what a full disk did not take they hear from us."""
        if not self._supervisor.events.unwritten:
            return
        self._watchers &= self._server.callers
        for caller in list(self._watchers):
            caller.send(self._unwritten())
