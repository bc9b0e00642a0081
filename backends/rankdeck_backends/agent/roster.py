"""The supervisor's ranks and launchers: what becomes of them, and its record as events."""

import os
import signal
import time

from . import launch, mpirun, processes, seats, signals, witness
from .lookout import Lookout
from .ranks import ENDED, RUNNING, WAITING, Launcher, Rank
from .run_folder import read_json, write_json


class Roster:
    """All ranks and launchers of one node.

    Attributes:
        ranks: {rank: Rank}; of ranks whose numbers their launcher deals out, by the number in the plan.
        launchers: {process index: Launcher}.
        adopted: whether a supervisor before this one started them, so that they are not our children.
        failed: whether the node's run cannot succeed any more.
        stopping_since: when a stop began (unix seconds), or None: what ends afterwards is no failure.
        lookout: finds out what nobody tells.
    """

    def __init__(self, folder, plan, events, index, on_failure, on_settled):
        """Begin with all of the plan's ranks waiting.

        Args:
            folder: the RunFolder.
            plan: the node's plan.
            events: the EventLog.
            index: the SizeIndex.
            on_failure: called with `("rank_failed", rank)`, `("launcher_ended", None)` or `("census", None)`.
            on_settled: called with a launcher whose start is to be settled now, before its end is recorded.
        """
        self._folder = folder
        self._plan = plan
        self._events = events
        self._index = index
        self._on_failure = on_failure
        self._on_settled = on_settled
        self._orphans = {}
        self.ranks = {}
        self.launchers = {}
        for number, process in enumerate(plan["processes"]):
            far = mpirun.is_joined(process)
            launched = far or bool(process["launcher"])
            if launched and not far:
                self.launchers[number] = Launcher(number, mpirun.is_mpirun(process))
            for rank, local_rank in zip(process["ranks"], process["local_ranks"]):  # noqa: B905
                known = None if seats.is_dealt(process) else rank
                seated = seats.is_seated(process)
                self.ranks[rank] = Rank(known, local_rank, number, launched, far, seated)
        self.adopted = False
        self.failed = False
        self.stopping_since = None
        self.lookout = Lookout(self, folder, plan)

    def in_state(self, state):
        """The Ranks in that state."""
        return [rank for rank in self.ranks.values() if rank.state == state]

    def find(self, said):
        """The Rank that a shim's message, its record or an event speaks of, or None."""
        if not said.get("attempt"):
            return self.ranks.get(said.get("rank"))
        seat = said.get("process"), said.get("local_rank")
        return next((r for r in self.ranks.values() if r.seated and (r.process, r.local_rank) == seat), None)

    # -- ranks that an mpirun starts -------------------------------------------------------------------------

    def joined(self, rank, message):
        """A rank's shim has come, and asks for its environment."""
        rank.shim_pid, rank.shim_start = message["shim_pid"], message["shim_start"]
        rank.relay_pid = message.get("relay_pid", 0)
        if rank.far:
            self.lookout.watch()

    def leave_out_waiting(self):
        """A stop begins: far ranks that have not joined never will."""
        for rank in self.missing():
            rank.state = ENDED

    def give_up_waiting(self):
        """Their mpirun has failed: far ranks that have not joined never will, and the others must end."""
        any_left = any(rank.far and rank.state != ENDED for rank in self.ranks.values())
        self.failed = self.failed or bool(self.missing())
        self.leave_out_waiting()
        if any_left:
            self._on_failure("launcher_ended", None)

    def launcher_lost(self):
        """Mpirun has killed what it started: it ends the run."""
        if self.stopping_since is None:
            self.failed = True
        self._on_failure("launcher_ended", None)

    def missing(self):
        """Far ranks that have not joined."""
        return [
            rank for rank in self.ranks.values() if rank.far and rank.state == WAITING and not rank.shim_pid
        ]

    # -- what is reported -----------------------------------------------------------------------------------

    def started(self, message):
        """A shim says that its rank runs; returns whether that is news."""
        rank = self._now(message)
        if rank is None or rank.state != WAITING:
            return False
        rank.state = RUNNING
        rank.asked_at = self.stopping_since
        if rank.launched:
            self.lookout.expect_others(rank.process)
        for name in ("pid", "start", "shim_pid", "shim_start", "local_rank"):
            setattr(rank, name, message[name])
        self._events.append(
            "rank_started",
            rank=rank.rank,
            local_rank=rank.local_rank,
            pid=rank.pid,
            host=message.get("host"),
            start=rank.start,
            **{name: value for name, value in rank.told.items() if name != "local_rank"},
        )
        if rank.pid in self._orphans:
            self.record_end(rank, launch.exit_record(rank.rank, self._orphans.pop(rank.pid), time.time()))
        return True

    def ended(self, message):
        """A shim says that its rank has ended, or could not be started."""
        rank = self._now(message)
        if rank is None or rank.state == ENDED:
            return
        if message["op"] == "start_failed":
            self._not_begun(rank, message["message"])
        self.record_end(rank, message)

    def _now(self, message):
        """The Rank that a shim speaks of, as that shim knows it; None for one of an attempt that is over."""
        rank = self.find(message)
        attempt = message.get("attempt", 0)
        if rank is None or attempt < rank.attempt:
            return None
        if attempt > rank.attempt:
            if rank.state == RUNNING:
                self.lookout.look_on_disk(rank)
            if rank.state == RUNNING:
                self.unknown(rank, "its launcher has started it again, and it left no exit status")
            rank.begin(message["rank"], attempt)
            rank.may_restart = bool(message.get("may_restart"))
            self._attempt_began(self.launchers[rank.process], attempt)
        return rank

    def _attempt_began(self, launcher, attempt):
        if attempt <= launcher.attempt:
            return
        if attempt > 1:
            self._events.append(
                "attempt_started", process=launcher.process, attempt=attempt, rank=launcher.failed_rank
            )
        launcher.attempt, launcher.failed_rank = attempt, None

    def _not_begun(self, rank, message):
        self.failed = self.failed or not rank.may_restart
        self._events.append(
            "start_failed", rank=rank.rank, message=message, **dict({"process": rank.process}, **rank.told)
        )

    def refused(self, message, why, taken):
        """A shim has no place in the run.

        Args:
            message: what it said of itself.
            why: what it was told.
            taken: whether another shim has its place, so that its rank is not the one that ends.
        """
        self.start_failed(None, message["process"], why)
        self._on_failure("census", None)
        rank = self.find(message)
        if rank is not None and rank.state == WAITING and rank.rank is not None and not taken:
            self.record_end(rank, {"rank": rank.rank, "exit_code": 126, "signal": None})

    def shrunk(self, process, message):
        """A launcher has started fewer ranks than the plan has."""
        self.start_failed(None, process, message)
        self._on_failure("census", None)

    def start_failed(self, rank, process, message):
        """A program or launcher could not be started."""
        self.failed = True
        self._events.append("start_failed", rank=rank, process=process, message=message)

    def shim_not_forked(self, rank, message):
        """The system refused another process."""
        self.start_failed(rank.rank, rank.process, message)
        self.record_end(rank, {"rank": rank.rank, "exit_code": 126, "signal": None})

    def none_started(self):
        """Setup failed: nothing will run."""
        self.failed = True
        for rank in self.ranks.values():
            rank.state = ENDED
        for launcher in self.launchers.values():
            launcher.ended = True

    def unknown(self, rank, why):
        """A rank's exit is not to be had; of one that was stopped as its success it is of no interest."""
        if rank.finished:
            self.record_end(rank, {"rank": rank.rank, "exit_code": None, "signal": None})
            return
        rank.state = ENDED
        more = dict(rank.told, may_restart=True) if rank.may_restart else rank.told
        more = dict(more, **witness.of_end(self._folder, rank, None))
        self._events.append("rank_unknown", rank=rank.rank, why=why, **more)
        if not rank.may_restart:
            self.failed = True
            self._on_failure("rank_failed", rank.rank)

    def record_end(self, rank, record):
        """A rank has ended, by its shim's word or what it left on disk."""
        rank.state = ENDED
        if rank.shim_gone_at is not None:
            self._keep_exit(rank, record)
        self._index.look([rank.log])
        out_bytes, err_bytes = self._index.sizes(rank.log)
        stopped = rank.asked_at is not None and record.get("t", time.time()) >= rank.asked_at
        rank.ended_well = record["exit_code"] == 0 or rank.finished
        more = dict(rank.told, finished=True) if rank.finished else rank.told
        if not rank.ended_well and not stopped:
            more = dict(more, **witness.of_end(self._folder, rank, record["signal"]))
            if self._may_restart(rank, record):
                more = dict(more, may_restart=True)
        self._events.append(
            "rank_ended",
            rank=rank.rank,
            exit_code=record["exit_code"],
            signal=record["signal"],
            out_bytes=out_bytes,
            err_bytes=err_bytes,
            asked=rank.finished
            or stopped
            or (record["signal"] is not None and record["signal"] in rank.sent),
            **more,
        )
        if rank.ended_well:
            return
        if "may_restart" in more:
            launcher = self.launchers[rank.process]
            if launcher.failed_rank is None and record["signal"] != "TERM":
                launcher.failed_rank = rank.rank
            return
        self.failed = True
        if not stopped:
            self._on_failure("rank_failed", rank.rank)

    def _may_restart(self, rank, record):
        """Whether the launcher may start it again. SIGTERM is its own: of a restart, whosever it is."""
        return rank.may_restart or (rank.seated and record["signal"] == "TERM")

    def _keep_exit(self, rank, record):
        """The shim could not: let the file say it all the same."""
        path = self._folder.rank_file(rank.log, "exit")
        if read_json(path) is None:
            try:
                write_json(path, record)
            except OSError:
                pass  # the event says it, too

    # -- what is found out ----------------------------------------------------------------------------------

    def child_ended(self, pid, status):
        """A child was reaped: a launcher, a shim, a program whose shim was killed, or an orphan."""
        for launcher in self.launchers.values():
            if launcher.pid == pid and not launcher.ended:
                killed = os.WIFSIGNALED(status)
                self.launcher_ended(
                    launcher,
                    None if killed else os.WEXITSTATUS(status),
                    signals.name(os.WTERMSIG(status)) if killed else None,
                )
                return
        for rank in self.ranks.values():
            if rank.state == ENDED:
                continue
            if pid == rank.shim_pid:
                self.lookout.shim_gone(rank)
                return
            if pid == rank.pid:
                rank.shim_gone_at = rank.shim_gone_at or time.monotonic()
                self.record_end(rank, launch.exit_record(rank.rank, status, time.time()))
                return
        if len(self._orphans) > 1024:
            self._orphans.clear()
        self._orphans[pid] = status

    def launcher_ended(self, launcher, exit_code, signal_name, message=None):
        """A launcher has gone; its ranks must not outlive it."""
        launcher.ended = True
        failed = exit_code != 0 and not (exit_code is None and self.adopted)
        if launcher.pipe is not None:
            self._on_settled(launcher)
        trouble = launcher.trouble
        if trouble:
            self.start_failed(None, launcher.process, trouble)
        message = trouble or message or launch.last_words(self._folder, self._plan, launcher.process)
        self._events.append(
            "launcher_ended",
            process=launcher.process,
            exit_code=exit_code,
            signal=signal_name,
            message=message,
        )
        self.failed = self.failed or failed
        mine = [rank for rank in self.ranks.values() if rank.process == launcher.process]
        waiting = [rank for rank in mine if rank.state == WAITING]
        if waiting:
            self.failed = True
            if not trouble and self.stopping_since is None:
                why = "the launcher ended before all of its ranks had started"
                self.start_failed(None, launcher.process, why + (": " + message if message else ""))
        for rank in waiting:
            rank.state = ENDED
        if any(rank.state == RUNNING for rank in mine):
            self._on_failure("launcher_ended", None)

    # -- signals --------------------------------------------------------------------------------------------

    def send_all(self, number):
        """Send every rank and launcher the signal that ends it; an mpirun but SIGKILL only later."""
        for rank in self.ranks.values():
            self.send(rank, number)
        for launcher in self.launchers.values():
            if number == signal.SIGKILL or not launcher.signalled_last:
                launcher.send(number)

    def send_last(self, number):
        """Send it to the launchers that `send_all` has passed over."""
        for launcher in self.launchers.values():
            if launcher.signalled_last:
                launcher.send(number)

    def send(self, rank, number):
        """Send one rank the signal that ends it."""
        now = time.time()
        if rank.send(number) and rank.asked_at is None:
            rank.asked_at = now

    def kill(self, found):
        """SIGKILL to these processes ({pid: Stat}), and note that we asked for it."""
        for rank in self.ranks.values():
            if rank.state == RUNNING and rank.asked_at is None:
                rank.asked_at = time.time()
        for stat in found.values():
            processes.signal_if_same(stat, signal.SIGKILL)

    def signal(self, numbers, number):
        """A signal that a person asked for; returns the ranks that got it."""
        sent = []
        for rank in self.ranks.values():
            if (numbers is None or rank.rank in numbers) and rank.send(number):
                rank.sent.add(signals.name(number))
                sent.append(rank.rank)
        return sent

    # -- is it over? ----------------------------------------------------------------------------------------

    def all_ended(self):
        """Whether nothing of what was started is left: ranks, launchers, shims."""
        if any(not launcher.ended for launcher in self.launchers.values()):
            return False
        if any(rank.state != ENDED for rank in self.ranks.values()):
            return False
        return not any(rank.has_shim() for rank in self.ranks.values())

    def groups(self):
        """The process groups of ranks and launchers that still have members."""
        pids = [rank.pid for rank in self.ranks.values()] + [item.pid for item in self.launchers.values()]
        return {pid for pid in pids if pid and _group_exists(pid)}

    def left_groups(self):
        """Those of them whose leader has ended: data loaders of a rank that failed, say."""
        ended = [rank.pid for rank in self.ranks.values() if rank.state == ENDED]
        return {pid for pid in ended if pid and _group_exists(pid)}

    def shims(self):
        """The pids of the shims whose ranks have not ended, and of their relays."""
        left = [rank for rank in self.ranks.values() if rank.state != ENDED]
        return [rank.shim_pid for rank in left] + [rank.relay_pid for rank in left]


def _group_exists(group):
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True
