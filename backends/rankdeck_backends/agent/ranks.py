"""One rank and one launcher, as their supervisor knows them."""

import os
import signal

from . import processes
from .run_folder import log_stem

WAITING, RUNNING, ENDED = "waiting", "running", "ended"


class Rank:
    """One rank: a program under its shim.

    Attributes:
        rank: its number; None for one whose launcher has not dealt it out yet.
        seated: whether it is known by its local number (see `seats`).
        attempt: which start of its launcher's ranks this is, from 1; 0 where there is but one, or none yet.
        may_restart: whether its launcher would start it again if it failed.
        pid: of the program, leader of its own group; 0 before it runs.
        start: its start time in clock ticks since boot.
        shim_pid, shim_start: the same of its shim.
        relay_pid: of what mpirun started for it, the shim's parent; 0 elsewhere.
        launched: whether a launcher started it, so that it is signalled through its shim.
        far: whether another node's mpirun started it, so that its shim is no descendant of ours.
        asked_at: when we first sent a signal that ends it (unix seconds), or None.
        sent: the names of the signals sent on request.
        finished: whether it was stopped because those it served have ended: that is its success.
        ended_well: whether it has ended, with success.
        shim_gone_at: when its shim was found to be gone (monotonic), or None.
    """

    def __init__(self, rank, local_rank, process, launched, far=False, seated=False):
        self.local_rank = local_rank
        self.process = process
        self.launched = launched
        self.far = far
        self.seated = seated
        self.begin(rank, 0)

    def begin(self, rank, attempt):
        """Wait for the first start, or for that of another attempt."""
        self.rank = rank
        self.attempt = attempt
        self.may_restart = False
        self.state = WAITING
        self.pid = 0
        self.start = 0
        self.shim_pid = 0
        self.shim_start = 0
        self.relay_pid = 0
        self.asked_at = None
        self.sent = set()
        self.shim_gone_at = None
        self.finished = False
        self.ended_well = False

    @property
    def log(self):
        """Its logs' name without the ending."""
        return log_stem(self.rank, self.attempt)

    @property
    def told(self):
        """What every event of a rank that may be started again has beside its number."""
        if not self.attempt:
            return {}
        return {"attempt": self.attempt, "process": self.process, "local_rank": self.local_rank}

    def has_shim(self):
        """Whether its shim still runs."""
        return processes.is_alive(self.shim_pid, self.shim_start, processes.boot_id())

    def has_program(self):
        """Whether its program still runs."""
        return processes.is_alive(self.pid, self.start, processes.boot_id())

    def send(self, number):
        """Send a signal to the program and all of its group; returns whether there was one to take it."""
        if self.state != RUNNING:
            return False
        if self.launched and number != signal.SIGKILL and _kill(os.kill, self.shim_pid, number):
            return True  # the shim passes it on, once, though the launcher may send it the same
        return _kill(os.killpg, self.pid, number)


class Launcher:
    """A process that starts ranks, leader of its own group.

    Attributes:
        pid: 0 before it runs.
        start: its start time in clock ticks since boot.
        pipe: where it says why it could not be started; None once that is settled.
        signalled_last: whether its ranks are to have their whole grace before it hears of a stop.
        trouble: why it could not be started, once settled; else empty.
        attempt: which start of its ranks is the newest, from 1; 0 before the first.
        failed_rank: the first that failed in that attempt, or None.
        ended: whether it has been reaped, or is known to be gone.
    """

    def __init__(self, process, signalled_last=False):
        self.process = process
        self.signalled_last = signalled_last
        self.pid = 0
        self.start = 0
        self.pipe = None
        self.attempt = 0
        self.failed_rank = None
        self.trouble = ""
        self.ended = False

    def send(self, number):
        """Send a signal to its group."""
        return not self.ended and _kill(os.killpg, self.pid, number)

    def is_alive(self):
        """Whether it still runs."""
        return processes.is_alive(self.pid, self.start, processes.boot_id())

    def settle(self):
        """Read what it says of its start; returns why it could not be started, empty if it was."""
        if self.pipe is not None:
            try:
                self.trouble = os.read(self.pipe, 65536).decode("utf-8", "replace")
            except OSError:
                pass
            os.close(self.pipe)
            self.pipe = None
        return self.trouble


def _kill(kill, pid, number):
    if pid <= 1:
        return False
    try:
        kill(pid, number)
    except OSError:
        return False
    return True
