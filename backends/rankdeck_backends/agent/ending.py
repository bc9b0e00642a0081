"""How a node's run comes to its end: signal, grace, SIGKILL, sweep, proof."""

import signal
import time

from . import processes, signals

RUNNING, SIGNALLED, KILLED, SWEEPING, DONE = "running", "signalled", "killed", "sweeping", "done"

STRAY_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for processes that outlive their rank: data loaders, helpers."""
KILL_PATIENCE = 10.0
"""Seconds to vanish after SIGKILL before a process is called unkillable: it hangs in the kernel."""
LAST_GRACE = 3.0
"""Seconds before the end of the grace (at most half of it) when an mpirun hears of the stop: it needs 2 to
end ranks on nodes that nobody could reach. Before that it would cut the grace of all ranks to one second."""
_PAUSE = 0.05


class Ending:
    """The state machine of stopping. `tick` moves it on; it acts through its supervisor.

    Attributes:
        phase: RUNNING, SIGNALLED (the grace runs), KILLED, SWEEPING or DONE.
        asked: whether a person asked for it.
        begun: `{why, rank, signal, grace, by}` of the stop that was begun, or None; `by` is empty where it
            began on this node, else `{peer, message}`: on which one, and what is said of it.
        swept: `{pid, cmd}` of processes that outlived their rank or were in no rank's group.
        left: `{pid, cmd}` of what could not be killed.
    """

    def __init__(self, supervisor):
        self._supervisor = supervisor
        self.phase = RUNNING
        self.asked = False
        self.begun = None
        self.swept = []
        self.left = []
        self._deadline = 0.0
        self._last = None
        self._last_grace = LAST_GRACE
        self._kill_at = 0.0
        self._known = set()

    def begin(self, why, number, grace, rank=None, by=None):
        """Send the first signal and let the grace run; nothing if an end is under way.

        Args:
            why: `asked`, `rank_failed`, `launcher_ended`, or `census`: the world is not the plan's; from
                another node also `start_failed`, `not_ready` and `node_lost`.
            number: the signal.
            grace: seconds until SIGKILL.
            rank: the rank that failed.
            by: `{peer, message}` if it is because of another node.
        """
        if self.phase != RUNNING:
            return
        self.phase = SIGNALLED
        self.asked = why == "asked"
        self._deadline = time.monotonic() + grace
        self._last = number
        self._last_grace = min(LAST_GRACE, grace / 2)
        self.begun = _begun(why, rank, signals.name(number), grace, by)
        self._supervisor.announce_stop(self.begun)
        self._supervisor.send_all(number)
        if not self._supervisor.together.has_begun():  # whose grace an mpirun could cut
            self._last = None
            self._supervisor.roster.send_last(number)

    def ask(self, number, grace):
        """A person wants it to end; if an end is under way already, it can only come sooner."""
        if self.phase == RUNNING:
            self.begin("asked", number, grace)
        elif self.phase == SIGNALLED:
            deadline = time.monotonic() + grace
            if deadline < self._deadline:
                self._deadline = deadline
                self._supervisor.events.append("hurried", grace=grace)

    def resume(self, event, grace_left):
        """Go on with a stop that a supervisor before us began, by its event `stopping`."""
        self.phase = SIGNALLED
        self.asked = event["why"] == "asked"
        by = {name: event[name] for name in ("peer", "message") if name in event}
        self.begun = _begun(event["why"], event["rank"], event["signal"], event["grace"], by)
        self._deadline = time.monotonic() + grace_left
        self._last = signal.SIGTERM

    def grace_left(self):
        """Seconds until SIGKILL; 0 outside the grace."""
        return max(0.0, self._deadline - time.monotonic()) if self.phase == SIGNALLED else 0.0

    def due(self, now):
        """When `tick` must be called at the latest (monotonic), or None."""
        if self.phase == SIGNALLED:
            # ranks that have ended may have left their group at work: nobody tells us when that is done
            if self._supervisor.roster.all_ended():
                return min(self._deadline, now + 4 * _PAUSE)
            return self._deadline if self._last is None else self._last_signal_at()
        if self.phase in (KILLED, SWEEPING):
            return now + _PAUSE
        return None

    def tick(self, now):
        """Move on as far as the clock and the processes allow."""
        if self.phase == SIGNALLED and self._last is not None and now >= self._last_signal_at():
            number, self._last = self._last, None
            self._supervisor.roster.send_last(number)
        if self.phase == SIGNALLED and now >= self._deadline and not self._supervisor.is_quiet():
            self._kill(now)
        if self.phase not in (SWEEPING, DONE):
            given_up = self.phase == KILLED and now > self._kill_at + KILL_PATIENCE
            if given_up or self._supervisor.is_quiet():
                self._start_sweep(now)
        if self.phase == SWEEPING:
            self._sweep(now)

    def _last_signal_at(self):
        return self._deadline - self._last_grace

    def _kill(self, now):
        self.phase = KILLED
        self._kill_at = now
        found = self._supervisor.processes_left()
        groups = self._supervisor.roster.groups()
        for stat in found.values():
            self._known.add((stat.pid, stat.start))
            if stat.group not in groups:
                self.swept.append(processes.swept(stat.pid))
        self._supervisor.kill(found)

    def _start_sweep(self, now):
        self._kill_at = now if self.phase == KILLED else now + STRAY_GRACE
        self.phase = SWEEPING

    def _sweep(self, now):
        found = self._supervisor.processes_left()
        for stat in found.values():
            if (stat.pid, stat.start) not in self._known:
                self._known.add((stat.pid, stat.start))
                self.swept.append(processes.swept(stat.pid))
                if now < self._kill_at:
                    processes.signal_if_same(stat, signal.SIGTERM)
        if now >= self._kill_at:
            self._supervisor.kill(found)
        if not found:
            self.phase = DONE
        elif now > self._kill_at + KILL_PATIENCE:
            self.left = [processes.left(pid) for pid in sorted(found)]
            self.phase = DONE


def _begun(why, rank, name, grace, by):
    return {"why": why, "rank": rank, "signal": name, "grace": grace, "by": by or {}}
