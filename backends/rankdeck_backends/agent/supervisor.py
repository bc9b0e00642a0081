"""The supervisor: holds a node's ranks until they are gone, and keeps the truth in the run's folder.

It sleeps in poll(2) until a child ends, somebody calls on its socket, or files are due for a look.
"""

import fcntl
import os
import signal
import time
from functools import partial

from . import environment, joining, launch, mpirun, processes, signals
from .census import Census
from .desk import Desk
from .ending import DONE, SWEEPING, Ending
from .ending import RUNNING as NOT_ENDING
from .events import EventLog
from .finishing import Finishing
from .joining import Joining
from .loop import Loop
from .ranks import ENDED, RUNNING
from .resume import resume
from .roster import Roster
from .run_folder import read_json, write_json
from .setup import SetupRun
from .sizes import SizeIndex

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
    """

    def __init__(self, folder, plan, base, secrets):
        """Prepare; nothing is started yet.

        Args:
            folder: the RunFolder.
            plan: the node's plan.
            base: the node's environment (bytes), what is removed already left out.
            secrets: {NAME: value}, kept in memory only.
        """
        self.folder = folder
        self.plan = plan
        self._marks = environment.marks(plan, folder.path)
        self.loop = Loop()
        self.events = EventLog(folder.events)
        self.ending = Ending(self)
        self._index = SizeIndex(folder.log_dir(plan))
        self.roster = Roster(folder, plan, self.events, self._index, self._on_failure, self._launcher_settled)
        self.census = Census(plan, self.roster)
        self.joining = Joining(self)
        self.finishing = Finishing(self)
        self._base = base
        self._secrets = secrets
        self._setup = None
        self._launched = False
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
            self._launched = True
            self.joining.close("the supervisor was killed before this rank had started")
            resume(self)
        else:
            self.events.append("supervisor_started", pid=os.getpid(), boot=processes.boot_id())
        self._desk = Desk(self)
        if self.ending.phase == NOT_ENDING:
            self.write_state("running" if resumed else "starting")
        os.write(ready, str(os.getpid()).encode("ascii"))
        os.close(ready)
        if not resumed:
            self._begin()
        while self.ending.phase != DONE:
            self.loop.step(self._patience())
            self._tick()
        self._finish()

    def _begin(self):
        if not self.plan["setup"]:
            self._launch(self._base)
            return
        marked = dict(self._base)
        marked.update(self._marks)
        processes_planned = self.plan["processes"]
        cwd = processes_planned[0]["cwd"] if processes_planned else None
        self._setup = SetupRun(self.plan["setup"], marked, cwd)
        for fd in self._setup.fds:
            self.loop.watch(fd, partial(self._read_setup, fd))

    def _launch(self, base):
        self._launched = True
        if joining.is_needed(self.plan):
            self.joining.open(joining.environment_of_ranks(base, self.plan, self._secrets, self.folder.path))
        for index, process in enumerate(self.plan["processes"]):
            if mpirun.is_joined(process):
                continue
            secrets = {} if mpirun.is_mpirun(process) else self._secrets
            env = environment.for_process(base, self.plan, process, secrets, self.folder.path)
            if process["launcher"]:
                self._start_launcher(self.roster.launchers[index], env)
            else:
                self._start_shim(self.roster.ranks[process["ranks"][0]], env)
        self._secrets = {}
        if self.ending.phase == NOT_ENDING:
            self.write_state("running")

    def _start_shim(self, rank, env):
        try:
            rank.shim_pid = launch.fork_shim(self.folder, self.plan, rank.process, env)
        except OSError as error:
            self.roster.shim_not_forked(rank, "no process for it: {}".format(error.strerror))
            return
        rank.shim_start = processes.start_of(rank.shim_pid)

    def _start_launcher(self, launcher, env):
        try:
            launcher.pid, launcher.pipe = launch.fork_launcher(self.folder, self.plan, launcher.process, env)
        except OSError as error:
            message = "no process for it: {}".format(error.strerror)
            self.roster.start_failed(None, launcher.process, message)
            self.roster.launcher_ended(launcher, 126, None, message)
            return
        launcher.start = processes.start_of(launcher.pid)
        self.loop.watch(launcher.pipe, partial(self._launcher_settled, launcher))

    def _launcher_settled(self, launcher):
        """Its pipe has ended: it was exec'ed. One that says why not ends at once, and is dealt with then."""
        self.loop.forget(launcher.pipe)
        if launcher.settle():
            return
        self.events.append(
            "launcher_started", process=launcher.process, pid=launcher.pid, start=launcher.start
        )

    def _finish(self):
        self._index.look([rank.log for rank in self.roster.ranks.values() if rank.pid])
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
        if self.ending.asked:
            return "stopped"
        ended = len(self.roster.in_state(ENDED)) == len(self.roster.ranks)
        return "succeeded" if ended and not self.roster.failed and not self.ending.left else "failed"

    def result(self):
        """What those hear who wait for the end."""
        return {
            "gone": not self.ending.left,
            "left": self.ending.left,
            "swept": self.ending.swept,
            "state": self._final,
        }

    def _linger(self):
        """While the disk takes no events, stay for those who ask: the exits are known nowhere else."""
        deadline = time.monotonic() + _LINGER
        while time.monotonic() < deadline:
            state = read_json(self.folder.state) or {}
            if not state.get("ended"):
                self.write_state(*self._state)
            if not self.events.flush() and (read_json(self.folder.state) or {}).get("ended"):
                return
            self.loop.step(_RETRY)

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
        due.append(self.finishing.due())
        if self._setup is not None:
            due.append(self._setup.deadline())
        return max(0.0, min(moment for moment in due if moment is not None) - now)

    def _tick(self):
        self._reap()
        now = time.monotonic()
        if self.roster.lookout.due and now >= self.roster.lookout.due:
            self.roster.lookout.check(now)
        if now >= self._index.due():
            self._index.look([rank.log for rank in self.roster.in_state(RUNNING)])
        if self._setup is not None and now >= self._setup.deadline():
            self._signal_setup(signal.SIGKILL)
            self._setup_ended(None)
        self.finishing.tick(now)
        self.ending.tick(now)
        self._desk.tick(now)
        if self.events.unwritten and now >= self._next_retry:
            self._next_retry = now + _RETRY
            self.events.flush()

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            if self._setup is not None and pid == self._setup.pid:
                killed = os.WIFSIGNALED(status)
                self._setup_ended(128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status))
            else:
                self.roster.child_ended(pid, status)

    # -- setup ------------------------------------------------------------------------------------------

    def _read_setup(self, fd):
        if not self._setup.read(fd):
            self.loop.forget(fd)

    def _setup_ended(self, status):
        setup, self._setup = self._setup, None
        for fd in setup.fds:
            self.loop.forget(fd)
        base, failure = setup.ended(status)
        if self.ending.phase != NOT_ENDING:
            self.joining.close("the run is ending")
            self.roster.none_started()
        elif failure is None:
            self._launch(base)
        else:
            self._launched = True
            self.events.append("setup_failed", **failure)
            self.joining.close("setup failed on this node: {}".format(failure["line"]))
            self.roster.none_started()

    def _signal_setup(self, number):
        try:
            os.killpg(self._setup.pid, number)
        except OSError:
            pass

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

    def _on_failure(self, why, rank):
        stop = self.plan["stop"]
        if stop["on_rank_failure"] == "stop" or why != "rank_failed":
            self.ending.begin(why, signals.number(stop["signal"]), stop["grace"], rank)

    def announce_stop(self, why, rank, number, grace):
        """Record that a stop begins."""
        self.roster.stopping_since = time.time()
        self.roster.leave_out_waiting()
        self.events.append("stopping", why=why, rank=rank, signal=signals.name(number), grace=grace)
        self.write_state("stopping")

    def send_all(self, number):
        """Send a signal to setup, ranks, launchers, and what ended ranks have left in their groups."""
        if self._setup is not None:
            self._signal_setup(number)
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
        found = processes.of_run(self._marks, os.getpid())
        for pid in self.roster.shims() + self.finishing.own():
            found.pop(pid, None)
        return found

    def is_quiet(self):
        """Whether all that was started has ended, so that only strays can be left."""
        if self._setup is not None or (not self._launched and self.ending.phase == NOT_ENDING):
            return False
        if not self._launched:
            return True
        if not self.roster.all_ended():
            return False
        return self.ending.phase == NOT_ENDING or not self._groups_at_work()

    def _groups_at_work(self):
        """During the grace: what a rank started in its own group may still be writing its checkpoint."""
        groups = self.roster.groups()
        if not groups:
            return False
        found = processes.of_run(self._marks, os.getpid())
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
