"""The supervisor: holds a node's ranks until they are gone, and keeps the truth in the run's folder.

It sleeps in poll(2) until a child ends, somebody calls on its socket, or files are due for a look.
"""

import fcntl
import os
import signal
import time
from functools import partial

from . import environment, mpirun, processes, signals
from .census import Census
from .desk import Desk
from .ending import DONE, SWEEPING, Ending
from .ending import RUNNING as NOT_ENDING
from .events import EventLog
from .finishing import Finishing
from .joining import Joining
from .kin import Kin
from .loop import Loop
from .ranks import ENDED, RUNNING
from .resume import resume
from .roster import Roster
from .run_folder import read_json, write_json
from .sizes import SizeIndex
from .starting import Starting
from .together import Together

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux 3.4
_RETRY = 2.0
"""Seconds between attempts to write what a full disk did not take."""
_LINGER = 3600.0
"""Seconds that the supervisor outlives its ranks where the disk still takes no events."""


class Supervisor:
    """One node's share of one run.

    Attributes:
        folder, plan: what it supervises.
        roster: its ranks and launchers.
        ending: how it comes to its end.
        events: its record.
        loop: what it waits in.
        starting, together: how it comes to run ranks, and its part in what all nodes do.
    """

    def __init__(self, folder, plan, base, secrets, at_logout=""):
        """Prepare; nothing is started yet.

        Args:
            folder: the RunFolder.
            plan: the node's plan.
            base: the node's environment (bytes), what is removed already left out.
            secrets: {NAME: value}, kept in memory only.
            at_logout: why it may be ended when its user logs out; empty where it is not.
        """
        self.folder = folder
        self.plan = plan
        self._marks = environment.marks(plan, folder.path)
        self.loop = Loop()
        self.events = EventLog(folder.events)
        self.ending = Ending(self)
        self._index = SizeIndex(folder.log_dir(plan))
        self.roster = Roster(folder, plan, self.events, self._index, self._on_failure, self._settled)
        self.kin = Kin(folder)
        self.census = Census(plan, self.roster)
        self.joining = Joining(self)
        self.finishing = Finishing(self)
        self.starting = Starting(self, base, secrets)
        self.together = Together(self)
        self._at_logout = at_logout
        self._degraded = set()
        self._desk = None
        self._state = ("starting", None)
        self._final = None
        self._next_retry = 0.0

    # -- life -------------------------------------------------------------------------------------------

    def run(self, resumed, ready):
        """From the first event to the last.

        Args:
            resumed: whether it takes over from one that was killed.
            ready: a descriptor that gets our pid once the state file is there.
        """
        lock = os.open(self.folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # not inherited by fork: ends with us, not with ranks
        except OSError:
            state = read_json(self.folder.state) or {}
            os.write(ready, str(state.get("pid", 0)).encode("ascii"))
            return
        _become_subreaper()
        self._listen_to_signals()
        if resumed:
            self.starting.launched = True
            self.joining.close("the supervisor was killed before this rank had started")
            self.kin.adopt(self._marks)
            resume(self)
        else:
            self.events.append("supervisor_started", pid=os.getpid(), boot=processes.boot_id())
        if self._at_logout:
            self.events.append("may_end_at_logout", why=self._at_logout)
        self._desk = Desk(self)
        self.together.begin(resumed)
        if self.ending.phase == NOT_ENDING:
            self.write_state("running" if resumed else "starting")
        os.write(ready, str(os.getpid()).encode("ascii"))
        os.close(ready)
        if not resumed:
            self.starting.begin()
        while self.ending.phase != DONE:
            self.loop.step(self._patience())
            self._tick()
        self._finish()

    def _finish(self):
        self._look([rank for rank in self.roster.ranks.values() if rank.pid])
        if self.ending.swept:
            self.events.append("swept", processes=self.ending.swept)
        self._final = self._final_state()
        event = self.events.append("node_ended", state=self._final, left=self.ending.left)
        self.write_state(self._final, event["t"])
        self._desk.tell_end()
        self._linger()
        self._desk.close()
        try:
            os.unlink(self.folder.socket)
        except OSError:
            pass

    def _final_state(self):
        if self.ending.asked or self._ends_for_another():
            return "stopped"
        ended = len(self.roster.in_state(ENDED)) == len(self.roster.ranks)
        return "succeeded" if ended and not self.roster.failed and not self.ending.left else "failed"

    def _ends_for_another(self):
        """Whether the stop began on another node: the one that all name as late or lost has failed itself."""
        peer = self.ending.begun["by"].get("peer") if self.ending.begun else None
        return peer is not None and peer != self.plan["node"]

    def result(self):
        """What those hear who wait for the end."""
        return {
            "gone": not self.ending.left,
            "left": self.ending.left,
            "swept": self.ending.swept,
            "state": self._final,
        }

    def _linger(self):
        """Stay while other nodes need us, and while the disk takes no events, which are nowhere else."""
        deadline = time.monotonic() + _LINGER
        while True:
            now = time.monotonic()
            may_leave, written = self.together.may_leave(now), self._is_written()
            if may_leave and (written or now > deadline):
                break
            self.together.tick(now)
            due = min(now + _RETRY, self.together.due() or now + _RETRY)
            self.loop.step(max(0.0, due - time.monotonic()))
        self.together.close()

    def _is_written(self):
        """Whether the disk has taken the end, or the folder is gone, where nobody looks; tries again."""
        if not os.path.isdir(self.folder.path):
            return True
        if not (read_json(self.folder.state) or {}).get("ended"):
            self.write_state(*self._state)
        return not self.events.flush() and bool((read_json(self.folder.state) or {}).get("ended"))

    def write_state(self, state, ended=None):
        """Replace supervisor.json."""
        self._state = (state, ended)
        value = {
            "pid": os.getpid(),
            "start": processes.start_of(os.getpid()),
            "boot": processes.boot_id(),
            "state": state,
            "ended": ended,
        }
        try:
            write_json(self.folder.state, value)
        except OSError as error:
            self.degraded("supervisor.json: {}".format(error.strerror))

    def degraded(self, what):
        """Say once that a file could not be written."""
        if what not in self._degraded:
            self._degraded.add(what)
            self.events.append("record_degraded", what=what)

    # -- the loop ---------------------------------------------------------------------------------------

    def _listen_to_signals(self):
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.loop.watch(read, partial(_drain, read))

    def _patience(self):
        now = time.monotonic()
        due = [self._index.due(), self.ending.due(now), self._desk.due(), self.roster.lookout.due or None]
        due += [self.finishing.due(), self.starting.due(), self.together.due()]
        return max(0.0, min(moment for moment in due if moment is not None) - now)

    def _tick(self):
        self._reap()
        now = time.monotonic()
        if self.roster.lookout.due and now >= self.roster.lookout.due:
            self.roster.lookout.check(now)
        if now >= self._index.due():
            self._look(self.roster.in_state(RUNNING))
            self._write_down_kin(now)
        self.starting.tick(now)
        self.together.tick(now)
        self.finishing.tick(now)
        self.ending.tick(now)
        self._desk.tick(now)
        if self.events.unwritten and now >= self._next_retry:
            self._next_retry = now + _RETRY
            self.events.flush()

    def _look(self, ranks):
        refusal = self._index.look([rank.log for rank in ranks])
        if refusal and ranks:
            self.degraded("the ranks' logs: {}: what they write meanwhile is lost".format(refusal))

    def _write_down_kin(self, now, wide=False):
        self.kin.look(now, {rank.shim_pid for rank in self.roster.ranks.values()}, wide)

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            if not self.starting.child_ended(pid, status):
                self.roster.child_ended(pid, status)

    # -- what the others need -----------------------------------------------------------------------------

    def refusal(self, message):
        """A shim asks whether its rank may run: why not, or empty. A world that is not the plan's ends."""
        said = self.census.refusal(message)
        if said:
            self.roster.refused(message, said, self.census.is_taken(message))
        return said

    def rank_started(self, message):
        """A shim says that its rank runs."""
        if self.roster.started(message) and self.ending.phase != NOT_ENDING:
            self.roster.send(self.roster.find(message), signal.SIGTERM)

    def is_joined(self):
        """Whether another node's mpirun starts this node's ranks, and may still do so."""
        joined = any(mpirun.is_joined(process) for process in self.plan["processes"])
        return joined and self.roster.stopping_since is None

    def _settled(self, launcher):
        self.starting.launcher_settled(launcher)

    def _on_failure(self, why, rank):
        stop = self.plan["stop"]
        if stop["on_rank_failure"] == "stop" or why != "rank_failed":
            self.ending.begin(why, signals.number(stop["signal"]), stop["grace"], rank)

    def announce_stop(self, begun):
        """Record that a stop begins."""
        self.roster.stopping_since = time.time()
        self.roster.leave_out_waiting()
        told = {name: begun[name] for name in ("why", "rank", "signal", "grace")}
        self.events.append("stopping", **dict(told, **begun["by"]))
        self.write_state("stopping")
        if self.roster.adopted:  # whose orphans do not come to us
            self._write_down_kin(time.monotonic(), wide=True)

    def send_all(self, number):
        """Send a signal to setup, ranks, launchers, and what ended ranks have left in their groups."""
        self.starting.signal(number)
        left = self.roster.left_groups()
        if left:
            for stat in self.processes_left().values():
                if stat.group in left:
                    processes.signal_if_same(stat, number)
        self.roster.send_all(number)

    def kill(self, found):
        """SIGKILL to these processes."""
        if self.ending.phase != SWEEPING:
            self.events.append("killing", pids=sorted(found))
        self.roster.kill(found)

    def processes_left(self):
        """The run's live processes on this node: {pid: Stat}. Shims that still have to tell are left out."""
        found = processes.of_run(self._marks, os.getpid(), self.kin.pids)
        for pid in self.roster.shims():
            found.pop(pid, None)
        return found

    def is_quiet(self):
        """Whether all that was started has ended, so that only strays can be left."""
        if not self.starting.is_through():
            return False
        if not self.starting.launched:
            return True
        if not self.roster.all_ended():
            return False
        return self.ending.phase == NOT_ENDING or not self._groups_at_work()

    def _groups_at_work(self):
        """During the grace: what a rank started in its own group may still be writing its checkpoint."""
        groups = self.roster.groups()
        if not groups:
            return False
        found = processes.of_run(self._marks, os.getpid(), self.kin.pids)
        return any(stat.group in groups for stat in found.values())


def _become_subreaper():
    """Orphans of the run become our children, so that none is lost. Without ctypes their marks find them."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        os.write(2, b"no ctypes: orphans of this run are found by their environment alone\n")


def _drain(fd):
    try:
        os.read(fd, 4096)
    except OSError:
        pass
