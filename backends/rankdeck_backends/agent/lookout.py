"""Finds out what nobody tells: ranks whose shim has gone without a word, and those that never came."""

import time

from . import seats
from .ranks import ENDED, RUNNING, WAITING
from .run_folder import read_json

_SHIM_PATIENCE = 1.0
"""Seconds to wait for word of a rank whose shim has gone: its last message may still be on its way."""
_SOON, _ADOPTED_PAUSE = 0.1, 1.0
"""Seconds between looks at ranks that nobody will tell us of."""


GATHER_LIMIT = 30.0
"""Seconds between the first and the last rank that a launcher starts on one node. It starts all of them at
once, so that each loads the same shim from the same disk at the same time."""


_FIRST = 4
"""How many times as long a node's first rank may come after another node's: each loads from its own disk."""


class Lookout:
    """Looks at a roster's ranks while there is reason to.

    Attributes:
        due: when `check` is due (monotonic), 0 for never.
    """

    def __init__(self, roster, folder, plan):
        self._roster = roster
        self._folder = folder
        self._plan = plan
        self._join_by = 0.0
        self._gather_by = {}
        self._first_by = None
        self.due = 0.0

    def expect(self, deadline):
        """Ranks that another node's mpirun starts have until then (monotonic) to join."""
        if self._roster.missing():
            self._join_by = deadline
            self._look_by(deadline)

    def expect_others(self, process):
        """A launcher's first rank on this node is there: the others must come soon."""
        if self._waiting_of(process) and process not in self._gather_by:
            self._gather_by[process] = time.monotonic() + self._gather_limit()
            self._look_by(self._gather_by[process])

    def expect_first(self):
        """Ranks of other nodes have begun: those of this node's launchers must, too."""
        if self._first_by is None:
            self._first_by = time.monotonic() + _FIRST * self._gather_limit()
            self._look_by(self._first_by)

    def watch(self):
        """Begin to look now and then: a far rank has joined."""
        self._look_by(time.monotonic() + _ADOPTED_PAUSE)

    def shim_gone(self, rank):
        """A rank's shim was reaped; what it had to say may lie on disk."""
        rank.shim_gone_at = time.monotonic()
        self.look_on_disk(rank)
        self.due = time.monotonic() + _SOON

    def check(self, now):
        """Look for ranks whose shim has gone without a word, and for those that are not our children."""
        roster = self._roster
        again = roster.adopted or any(
            rank.far and rank.shim_pid and rank.state != ENDED for rank in roster.ranks.values()
        )
        pause = _ADOPTED_PAUSE
        if self._join_by and now >= self._join_by:
            self._join_by = 0.0
            self._not_joined()
        self._check_gathered(now)
        self._check_first(now)
        for rank in roster.ranks.values():
            if roster.adopted and rank.launched and rank.state == WAITING:
                self.look_on_disk(rank)  # it may have started while no supervisor was there to be told
            if rank.state == ENDED or not self._has_lost_shim(rank, now):
                continue
            self.look_on_disk(rank)
            if rank.state == ENDED:
                continue
            if rank.state == RUNNING and rank.has_program():
                again = True
            elif now < rank.shim_gone_at + _SHIM_PATIENCE:
                again, pause = True, _SOON
            else:
                roster.unknown(rank, "its shim and the program have gone and left no exit status")
        for launcher in roster.launchers.values():
            if roster.adopted and not launcher.ended and not launcher.is_alive():
                roster.launcher_ended(
                    launcher, None, None, "its exit status is lost: the supervisor had been killed"
                )
        self.due = now + pause if again else 0.0
        if self._join_by and roster.missing():
            self._look_by(self._join_by)
        for deadline in list(self._gather_by.values()) + [self._first_by]:
            if deadline:
                self._look_by(deadline)

    def look_on_disk(self, rank):
        """Take in what its shim has left there."""
        if rank.state == WAITING:
            record = self._start_of(rank)
            if record is not None:
                self._roster.started(record)
        if rank.state == RUNNING or (rank.state == WAITING and rank.rank is not None):
            record = read_json(self._folder.rank_file(rank.log, "exit"))
            if record is not None:
                self._roster.record_end(rank, record)

    def _start_of(self, rank):
        if rank.seated:
            return seats.newest_start(self._folder, rank)
        return read_json(self._folder.rank_file(rank.log, "start"))

    def _look_by(self, moment):
        self.due = min(self.due or moment, moment)

    def _waiting_of(self, process):
        """The ranks that its launcher has not started, in its newest attempt."""
        launcher = self._roster.launchers.get(process)
        newest = launcher.attempt if launcher is not None else 0
        return [
            rank
            for rank in self._roster.ranks.values()
            if rank.process == process
            and ((rank.state == WAITING and not rank.shim_pid) or rank.attempt < newest)
        ]

    def _has_left_off(self, process):
        """Whether none of the newest attempt's ranks runs: their launcher has ended them, to start anew."""
        newest = self._roster.launchers[process].attempt if process in self._roster.launchers else 0
        ranks = self._roster.in_state(RUNNING)
        return newest > 1 and not any(r.process == process and r.attempt == newest for r in ranks)

    def _gather_limit(self):
        return self._plan.get("gather_limit", GATHER_LIMIT)

    def _check_gathered(self, now):
        for process, deadline in list(self._gather_by.items()):
            waiting = self._waiting_of(process)
            if not waiting or self._roster.stopping_since is not None or self._has_left_off(process):
                del self._gather_by[process]
            elif now >= deadline:
                del self._gather_by[process]
                ranks = [rank for rank in self._roster.ranks.values() if rank.process == process]
                said = (
                    "{} of the {} ranks planned for this node have come, and no other within {:g} s:"
                    " the launcher did not start local ranks {}"
                )
                found, missing = len(ranks) - len(waiting), [rank.local_rank for rank in waiting]
                self._roster.shrunk(process, said.format(found, len(ranks), self._gather_limit(), missing))

    def _check_first(self, now):
        if not self._first_by:
            return
        begun = any(rank.state != WAITING or rank.shim_pid for rank in self._roster.ranks.values())
        launchers = [launcher for launcher in self._roster.launchers.values() if not launcher.ended]
        if begun or not launchers or self._roster.stopping_since is not None:
            self._first_by = 0.0
        elif now >= self._first_by:
            self._first_by = 0.0
            said = "ranks of other nodes have begun, and none here within {:g} s: the launcher started none"
            self._roster.shrunk(launchers[0].process, said.format(_FIRST * self._gather_limit()))

    def _not_joined(self):
        missing = [rank.rank for rank in self._roster.missing()]
        if missing:
            said = "ranks {} were not started here within {:g} s by the mpirun on the head node"
            if self._first_by is None and len(missing) == len(self._roster.ranks):
                said += (
                    "; nor were any on another node: its own daemons may not get through (ssh between the"
                    " nodes, a firewall, MPI settings in a node's start-up files); see what it wrote itself"
                )
            self._roster.start_failed(None, 0, said.format(missing, self._plan["join_limit"]))
            self._roster.give_up_waiting()

    def _has_lost_shim(self, rank, now):
        expected = rank.state == RUNNING or not rank.launched or (rank.far and rank.shim_pid)
        watched = self._roster.adopted or rank.far
        if rank.shim_gone_at is None and watched and expected and not rank.has_shim():
            rank.shim_gone_at = now
        return rank.shim_gone_at is not None
