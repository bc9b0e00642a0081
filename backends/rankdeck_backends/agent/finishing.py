"""Processes that serve others and never end by themselves: stopped, as a success, when the others are done.

Ranks of this node are known; those of other nodes by the addresses where they listen while they live.
"""

import os
import signal
import socket
import time

from . import launch, processes, signals
from .ending import RUNNING as NOT_ENDING
from .ranks import ENDED, RUNNING

_PAUSE = 1.0
"""Seconds between two looks."""
_CONNECT_LIMIT = 2.0
_LOOK_LIMIT = 60.0
_REFUSALS = 3
"""Looks in a row at which an address that has been listening refuses: its rank has gone."""
_HEARD, _REFUSED, _SILENT = b"+", b"-", b"?"


class Finishing:
    """Watches for the end of those that are served."""

    def __init__(self, supervisor):
        self._supervisor = supervisor
        self._serving = [
            (process["ranks"], process["ends_with"])
            for process in supervisor.plan["processes"]
            if process.get("ends_with")
        ]
        known = supervisor.roster.ranks
        pairs = [
            pair
            for _, ends in self._serving
            for pair in zip(ends["ranks"], ends.get("addresses") or ())  # noqa: B905
        ]
        self._refusals = {address: None for rank, address in pairs if rank not in known}
        self._next = time.monotonic() + _PAUSE
        self._look = None
        self._deadlines = {}

    def due(self):
        """When `tick` must be called at the latest (monotonic), or None."""
        return self._next if self._at_work() else None

    def tick(self, now):
        """Look whether all have ended, and stop those who served them."""
        if now < self._next or not self._at_work():
            return
        self._next = now + _PAUSE
        for rank in self._supervisor.roster.ranks.values():
            if rank.finished and rank.state == RUNNING and now >= self._deadline(rank, now):
                rank.send(signal.SIGKILL)
        if self._supervisor.ending.phase != NOT_ENDING:
            return
        for ranks, ends in self._serving:
            if self._is_over(ends):
                self.finish(ranks)
        if self._refusals and self._look is None:
            self._begin_look(now)
        elif self._look is not None and now > self._look[2]:
            processes.signal_if_same(self._look[1], signal.SIGKILL)

    def finish(self, ranks):
        """Stop ranks that serve; returns those that were sent the signal.

        Args:
            ranks: their numbers, or None for all that serve. Others are passed over.
        """
        stop = self._supervisor.plan["stop"]
        serving = {rank for numbers, _ in self._serving for rank in numbers}
        sent = []
        for number in sorted(serving if ranks is None else serving.intersection(ranks)):
            rank = self._supervisor.roster.ranks[number]
            if rank.state != RUNNING or rank.finished:
                continue
            rank.finished = True
            sent.append(number)
        if sent:
            self._supervisor.events.append("finishing", ranks=sent)
        for number in sent:
            self._supervisor.roster.ranks[number].send(signals.number(stop["signal"]))
        return sent

    def own(self):
        """The pid of the child that looks now, in a list; empty where there is none."""
        return [self._look[1].pid] if self._look is not None else []

    def _deadline(self, rank, now):
        return self._deadlines.setdefault(rank.rank, now + self._supervisor.plan["stop"]["grace"])

    def _at_work(self):
        known = self._supervisor.roster.ranks
        return any(known[rank].state != ENDED for ranks, _ in self._serving for rank in ranks)

    def _is_over(self, ends):
        known = self._supervisor.roster.ranks
        addresses = ends.get("addresses") or ()
        for place, number in enumerate(ends["ranks"]):
            if number in known:
                if not known[number].ended_well:
                    return False
            elif place >= len(addresses) or (self._refusals[addresses[place]] or 0) < _REFUSALS:
                return False
        return True

    # -- ranks of other nodes: names and connections may hang, so a child looks ------------------------------

    def _begin_look(self, now):
        addresses = sorted(self._refusals)
        read, write = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(read)
            os.close(write)
            return
        if pid == 0:
            _look_at(addresses, write)
        os.close(write)
        os.set_blocking(read, False)
        self._look = (read, processes.stat_of(pid), now + _LOOK_LIMIT)
        self._supervisor.loop.watch(read, lambda: self._end_look(addresses))

    def _end_look(self, addresses):
        read, _, _ = self._look
        try:
            said = os.read(read, 65536)
        except OSError:
            return
        self._supervisor.loop.forget(read)
        os.close(read)
        self._look = None
        for address, word in zip(addresses, (said[i : i + 1] for i in range(len(said)))):  # noqa: B905
            if word == _HEARD:
                self._refusals[address] = 0
            elif word == _REFUSED and self._refusals[address] is not None:
                self._refusals[address] += 1


def _look_at(addresses, write):
    """The child: never returns."""
    try:
        launch.leave_supervisor()
        os.write(write, b"".join(_ask(address) for address in addresses))
    finally:
        os._exit(0)


def _ask(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_LIMIT).close()
    except ConnectionRefusedError:
        return _REFUSED
    except (OSError, ValueError):
        return _SILENT
    return _HEARD
