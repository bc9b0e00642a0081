"""A supervisor that takes over from one that was killed: it reads the folder and goes on watching."""

import os
import time

from . import processes, seats
from .ranks import ENDED, RUNNING, WAITING
from .run_folder import read_json


def resume(supervisor):
    """Bring a new supervisor to where the old one was, and record what has happened since."""
    roster = supervisor.roster
    roster.adopted = True
    roster.lookout.due = time.monotonic()
    _retell(supervisor, supervisor.events.resume())
    supervisor.events.append("supervisor_resumed", pid=os.getpid())
    for rank in roster.ranks.values():
        if rank.state != ENDED or rank.seated:
            _find(supervisor, rank)
    for launcher in roster.launchers.values():
        if not launcher.pid:
            launcher.ended = True
    for rank in roster.ranks.values():
        launcher = roster.launchers.get(rank.process)
        if rank.state == WAITING and (launcher is None or launcher.ended):
            roster.unknown(rank, "the supervisor was killed before this rank had started")


def _retell(supervisor, events):
    """What the events say, without acting on it again."""
    roster = supervisor.roster
    stopping = None
    for event in events:
        rank = roster.find(event)
        ev = event["ev"]
        if rank and event.get("attempt", 0) > rank.attempt:
            rank.begin(event["rank"], event["attempt"])
            roster.launchers[rank.process].attempt = event["attempt"]
        if ev == "rank_started" and rank:
            rank.state, rank.pid, rank.start = RUNNING, event["pid"], event["start"]
        elif ev == "rank_ended" and rank:
            rank.state = ENDED
            rank.finished = bool(event.get("finished"))
            rank.ended_well = event["exit_code"] == 0 or rank.finished
            roster.failed = roster.failed or not (rank.ended_well or event.get("may_restart"))
        elif ev == "rank_unknown" and rank:
            rank.state = ENDED
            roster.failed = True
        elif ev == "setup_failed" or (ev == "start_failed" and not event.get("attempt")):
            roster.failed = True
        elif ev == "launcher_started":
            launcher = roster.launchers[event["process"]]
            launcher.pid, launcher.start = event["pid"], event["start"]
        elif ev == "launcher_ended":
            roster.launchers[event["process"]].ended = True
        elif ev == "finishing":
            for number in event["ranks"]:
                roster.ranks[number].finished = True
        elif ev == "stopping":
            stopping = event
        elif ev == "hurried" and stopping is not None:
            stopping = dict(stopping, grace=event["t"] - stopping["t"] + event["grace"])
    if stopping is not None:
        roster.stopping_since = stopping["t"]
        for rank in roster.ranks.values():
            if rank.state == RUNNING:
                rank.asked_at = stopping["t"]
        left = stopping["t"] + stopping["grace"] - time.time()
        supervisor.ending.resume(stopping, max(0.0, left))


def _start_of(folder, rank):
    if rank.seated:
        return seats.newest_start(folder, rank)
    return read_json(folder.rank_file(rank.log, "start"))


def _find(supervisor, rank):
    """Where a rank that has not been told to have ended is now."""
    record = _start_of(supervisor.folder, rank)
    if record is None:
        return
    if rank.seated and record["attempt"] > rank.attempt:
        supervisor.roster.started(record)
    if rank.state == ENDED:
        return
    rank.may_restart = bool(record.get("may_restart"))
    rank.shim_pid, rank.shim_start = record["shim_pid"], record["shim_start"]
    supervisor.roster.started(record)
    if record["boot"] != processes.boot_id():
        rank.shim_gone_at = time.monotonic()
        if read_json(supervisor.folder.rank_file(rank.log, "exit")) is None:
            supervisor.roster.unknown(rank, "the node was restarted while this rank ran")
