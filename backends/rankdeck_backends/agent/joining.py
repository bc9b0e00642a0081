"""The supervisor's side of ranks that an mpirun starts: who may join, and the environment they get."""

import time

from . import census, environment, mpirun
from .encoding import text
from .ending import RUNNING as NOT_ENDING
from .ranks import WAITING


class Joining:
    """Hands each rank's shim its environment, once, when setup has made it."""

    def __init__(self, supervisor):
        self._supervisor = supervisor
        self._env = None
        self._early = []
        self._refusal = ""

    def open(self, env):
        """From now on ranks may run.

        Args:
            env: what each of them gets (bytes), beside its own numbers.
        """
        self._env = env
        self._supervisor.roster.lookout.expect(time.monotonic() + self._supervisor.plan["join_limit"])
        early, self._early = self._early, []
        for caller, rank in early:
            self._admit(caller, rank)

    def close(self, why):
        """No rank will run any more."""
        self._refusal = why
        self._env = None
        early, self._early = self._early, []
        for caller, _ in early:
            caller.send({"ok": False, "message": why})

    def ask(self, caller, message):
        """A shim asks for its rank's environment."""
        rank = self._supervisor.roster.ranks.get(message.get("rank"))
        refusal = self._why_not(rank, message)
        if refusal:
            caller.send({"ok": False, "message": refusal})
            return
        self._supervisor.roster.joined(rank, message)
        if self._env is None:
            self._early.append((caller, rank))
        else:
            self._admit(caller, rank)

    def failed(self, message):
        """A shim found no place for its rank: this run's numbers are wrong."""
        roster = self._supervisor.roster
        roster.start_failed(None, 0, message)
        roster.give_up_waiting()

    def _why_not(self, rank, message):
        plan = self._supervisor.plan
        if rank is None:
            return "rank {!r} is not one of node {}".format(message.get("rank"), plan["node"])
        if rank.shim_pid:
            said = census.twice(rank.rank, plan["world_size"])
            self.failed(said)
            return said
        if self._refusal:
            return self._refusal
        if rank.state != WAITING or self._supervisor.ending.phase != NOT_ENDING:
            return "rank {}: the run is ending".format(rank.rank)
        return ""

    def _admit(self, caller, rank):
        if self._supervisor.ending.phase != NOT_ENDING:
            caller.send({"ok": False, "message": "rank {}: the run is ending".format(rank.rank)})
            return
        env = {text(name): text(value) for name, value in self._env.items()}
        caller.send_whole({"ok": True, "env": env})


def environment_of_ranks(base, plan, secrets, directory):
    """What every rank of this node gets where an mpirun starts it (bytes)."""
    return environment.for_process(base, plan, {"env": plan["rank_env"]}, secrets, directory)


def is_needed(plan):
    """Whether this node's ranks are started by an mpirun."""
    return any(mpirun.is_mpirun(process) or mpirun.is_joined(process) for process in plan["processes"])
