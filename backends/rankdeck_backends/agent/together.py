"""The nodes of a run as one: they begin together, end together, and notice when one of them is gone.

Every node's supervisor tells the head's how it stands, and the head tells all what that means. Both are told
whole, whenever they change and once a second: so a link that fails and is made again has missed nothing, and
nobody needs to be attached. A run on one node has no links; there this decides alone.
"""

import time

from . import signals
from .ending import RUNNING as NOT_ENDING
from .run_folder import read_json, write_json

BEAT = 1.0
"""Seconds between two words on a link."""
SILENCE = 10.0
"""Seconds without a word after which a node is called unreachable."""
_SOON = 1.0
"""Seconds after which it is worth telling for whom the start waits."""
_SETUP, _READY, _RUNNING, _ENDED = "setup", "ready", "running", "ended"


class Together:
    """One node's part in the run's beginning and end.

    Attributes:
        may_start: whether every node has said that it is ready.
        well: ranks of other nodes that have ended well, as far as some process is there for them.
    """

    def __init__(self, supervisor):
        self._supervisor = supervisor
        plan = supervisor.plan
        links = plan.get("links") or {}
        self._names = links.get("nodes") or [plan["node"]]
        self._served = set(links.get("served") or ())
        self._limit = links.get("barrier", 0.0)
        self._lost = links.get("lost", 0.0)
        self._me = plan["node_rank"]
        self._hub = self._spoke = self._where = None
        self._launch = None
        now = time.monotonic()
        self._began = self._ticked = now
        self._phase = _SETUP
        self._told = {}
        self._heard = {}
        self._unreachable = set()
        self._waiting = None
        self._sent = {}
        self._next_beat = 0.0
        self._order = None
        self._agreed = None
        self._left_at = None
        self.may_start = len(self._names) == 1
        self.well = set()

    def begin(self, resumed):
        """Listen, or prepare to connect. Called before anybody is told that the supervisor is there.

        Args:
            resumed: this supervisor takes over from one that was killed: its ranks run, or never will.

        Raises:
            OSError: no port, or the folder can't be written.
        """
        if len(self._names) == 1:
            return
        where = read_json(self._supervisor.folder.link)
        if where is None:
            raise OSError(2, "link.json is missing: this plan's nodes are to be linked")
        if resumed:
            self.may_start = True
            self._phase = _RUNNING
            others = [0] if self._me else range(1, len(self._names))
            self._heard = {node: time.monotonic() for node in others}
        run, loop = self._supervisor.plan["run"], self._supervisor.loop
        # Only now: hashlib brings all of OpenSSL, which a run on one node does without.
        if self._me:
            from .spoke import Spoke

            self._spoke = Spoke(loop, where, run, self._me, self._take_order)
            return
        from .hub import Hub

        self._hub = Hub(loop, where["secret"], run, len(self._names), self._take_status)
        self._where = where
        if resumed:
            self._listen_again()
            return
        self._hub.listen(where["address"], 0)
        write_json(self._supervisor.folder.link, dict(where, port=self._hub.port))

    def _listen_again(self):
        """At the port that the others know. Another program may have it by now: tried until it is free."""
        try:
            self._hub.listen(self._where["address"], self._where["port"])
        except OSError as error:
            said = "links: port {}: {}".format(self._where["port"], error.strerror)
            self._supervisor.degraded(said)

    def ready(self, launch):
        """This node can start its ranks: `launch()` is called once all can."""
        if self.may_start:
            self._phase = _RUNNING
            launch()
            return
        self._phase = _READY
        self._launch = launch
        self._supervisor.events.append("ready")

    def due(self):
        """When `tick` must be called at the latest (monotonic), or None."""
        if self._hub is None and self._spoke is None:
            return None
        moments = [self._next_beat, self._spoke.due() if self._spoke else None]
        return min(moment for moment in moments if moment is not None)

    def tick(self, now):
        """Say what there is to say, and draw conclusions."""
        if self._hub is None and self._spoke is None:
            return
        if now - self._ticked > 3 * BEAT:  # it was this process that stood still
            for node in self._heard:
                self._heard[node] = min(now, self._heard[node] + now - self._ticked)
        self._ticked = now
        beat = now >= self._next_beat
        if beat:
            self._next_beat = now + BEAT
            self._look_for_lost(now)
            if self._hub is not None and not self._hub.port:
                self._listen_again()
        if self._hub is not None:
            self._hub.tick(now)
            self._lead(now, beat)
        else:
            self._spoke.tick(now)
            self._say_status(now, beat)

    def may_leave(self, now):
        """Whether nobody needs this supervisor any more, whose own ranks have ended."""
        if self._hub is None and self._spoke is None:
            return True
        self._phase = _ENDED
        if self._left_at is None:
            self._left_at = now
        if self._spoke is not None:
            is_over = self._order is not None and self._me in self._order["over"]
            return is_over or self._is_given_up(0, self._spoke.is_up, now)
        others = range(1, len(self._names)) if self.may_start else [node for node in self._told if node]
        return all(self._is_done_with(node, now) for node in others)

    def has_begun(self):
        """Whether any rank of the run has begun, as far as is known here."""
        told = [self._order] if self._order is not None else self._told.values()
        return self._own_begun() or any(status["begun"] for status in told)

    def close(self):
        """End the links."""
        for end in (self._hub, self._spoke):
            if end is not None:
                end.close()

    def _is_given_up(self, node, linked, now):
        """Whether a node that may have something to tell, or to be told, is left to itself."""
        if linked:
            return False
        # A failure here is agreed once the head has heard of it: till then it has to be told there. Who asks
        # for a stop asks all nodes.
        begun = self._supervisor.ending.begun
        asked = begun is not None and begun["why"] == "asked"
        limit = SILENCE if asked or self._agreed is not None else self._lost
        return not self.may_start or now - max(self._left_at, self._heard.get(node, 0.0)) > limit

    # -- the head -----------------------------------------------------------------------------------------

    def _take_status(self, node, message):
        self._hear(node)
        self._told[node] = message
        if message["stop"] and self._agreed is None:
            self._agreed = message["stop"]

    def _lead(self, now, beat):
        self._told[0] = self._status()
        self._agreed = self._agreed or self._told[0]["stop"]
        if not self.may_start and self._agreed is None:
            self._watch_barrier(now)
        statuses = list(self._told.values())
        order = {
            "go": self.may_start,
            "stop": self._agreed,
            "mpirun_over": any(told["mpirun_over"] for told in statuses),
            "well": sorted({rank for told in statuses for rank in told["well"]}),
            "begun": any(told["begun"] for told in statuses),
            "over": [node for node in sorted(self._told) if self._has_ended(node)],
        }
        for node, link in list(self._hub.links.items()):
            if beat or self._sent.get(node) != (link, order):
                self._sent[node] = link, order
                self._hub.send(node, order)
        self._obey(order)

    def _watch_barrier(self, now):
        waiting = {}
        for node in range(len(self._names)):
            told = self._told.get(node)
            if told is None:
                waiting[node] = "not heard of yet"
            elif told["phase"] == _SETUP:
                waiting[node] = "setting up"
            elif node and node not in self._hub.links:
                waiting[node] = "its link is gone"
        elapsed = now - self._began
        if not waiting:
            self.may_start = True
            self._supervisor.events.append("all_ready", seconds=round(elapsed, 3))
        elif elapsed > self._limit:
            first = min(waiting)
            said = "not ready within {:g} s: {}".format(self._limit, waiting[first])
            self._stop_for("not_ready", first, said)
        elif elapsed > _SOON and waiting != self._waiting:
            self._waiting = waiting
            told = [{"peer": self._names[node], "what": what} for node, what in sorted(waiting.items())]
            self._supervisor.events.append("waiting", on=told, seconds=round(elapsed, 1), limit=self._limit)

    def _has_ended(self, node):
        return node in self._told and self._told[node]["phase"] == _ENDED

    def _is_done_with(self, node, now):
        """Whether it has ended and knows that this is known here, or is left to itself."""
        linked = node in self._hub.links
        if not self._has_ended(node):
            return self._is_given_up(node, linked, now)
        return not linked or node in self._sent[node][1]["over"]

    # -- every other node ---------------------------------------------------------------------------------

    def _take_order(self, order):
        self._hear(0)
        self._order = order
        self.may_start = self.may_start or order["go"]
        self._agreed = self._agreed or order["stop"]
        self._obey(order)

    def _say_status(self, now, beat):
        status = self._status()
        if not self._spoke.is_up:
            self._sent.clear()
        elif beat or self._sent.get(0) != status:
            self._sent[0] = status
            self._spoke.send(status)
        if not self.may_start and now - self._began > self._limit + SILENCE:
            self._stop_for("not_ready", 0, self._spoke.trouble or "gave no word to begin")

    # -- all ----------------------------------------------------------------------------------------------

    def _status(self):
        roster = self._supervisor.roster
        launchers = roster.launchers.values()
        known = roster.ranks.values()
        return {
            "phase": self._phase,
            "stop": self._own_stop(),
            "mpirun_over": any(launcher.signalled_last and launcher.ended for launcher in launchers),
            "begun": self._own_begun(),
            "well": [rank.rank for rank in known if rank.ended_well and rank.rank in self._served],
        }

    def _own_begun(self):
        return any(rank.pid for rank in self._supervisor.roster.ranks.values())

    def _obey(self, order):
        """Do here what holds for all nodes."""
        ending, roster = self._supervisor.ending, self._supervisor.roster
        if self._agreed is not None:
            stop = self._agreed
            if ending.phase == NOT_ENDING:
                own = stop["peer"] == self._supervisor.plan["node"] and stop["why"] in _WORDS
                by = None if own else {"peer": stop["peer"], "message": stop["message"]}
                ending.begin(stop["why"], signals.number(stop["signal"]), stop["grace"], stop["rank"], by)
            return
        if self.may_start and self._launch is not None and ending.phase == NOT_ENDING:
            launch, self._launch = self._launch, None
            self._phase = _RUNNING
            launch()
        self.well = set(order["well"])
        if order["begun"]:
            roster.lookout.expect_first()
        if order["mpirun_over"] and self._phase == _RUNNING and self._supervisor.is_joined():
            roster.give_up_waiting()

    def _own_stop(self):
        """The stop that this node asks of all, for what has happened here; or None."""
        ending, roster = self._supervisor.ending, self._supervisor.roster
        if ending.begun is None:
            if not roster.failed or not self._spreads():
                return None
            over = any(launcher.ended for launcher in roster.launchers.values())
            return self._stop_of(self._supervisor.plan["stop"], "launcher_ended" if over else "start_failed")
        begun = ending.begun
        if begun["by"] or begun["why"] == "asked" or (roster.failed and self._spreads()):
            return dict(self._stop_of(begun, begun["why"], begun["rank"]), **begun["by"])
        return None

    def _stop_of(self, how, why, rank=None):
        name, said = self._supervisor.plan["node"], _WORDS.get(why, "").format(rank)
        stop = {"why": why, "peer": name, "rank": rank, "message": "{}: {}".format(name, said)}
        return dict(stop, signal=how["signal"], grace=how["grace"])

    def _spreads(self):
        """Whether a failure here ends the run. Before the ranks begin it does in any case: none could."""
        return not self.may_start or self._supervisor.plan["stop"]["on_rank_failure"] == "stop"

    def _stop_for(self, why, node, said):
        """End the run because of a node that is not there to say so."""
        if self._agreed is None:
            name = self._names[node]
            stop = self._stop_of(self._supervisor.plan["stop"], why)
            self._agreed = dict(stop, peer=name, message="{}: {}".format(name, said))
            self._obey(None)

    # -- who is silent ------------------------------------------------------------------------------------

    def _look_for_lost(self, now):
        for node, heard in list(self._heard.items()):
            silent = now - heard
            if self._has_ended(node) or silent < SILENCE:
                continue
            if node not in self._unreachable:
                self._unreachable.add(node)
                self._tell("node_unreachable", node, seconds=round(silent, 1), limit=self._lost)
                if self._hub is not None:
                    self._hub.let_go(node)
                else:
                    self._spoke.let_go()
            if silent > self._lost and self.may_start and self._spreads():
                self._stop_for("node_lost", node, "not heard of for {:.0f} s".format(silent))

    def _hear(self, node):
        self._heard[node] = time.monotonic()
        if node in self._unreachable:
            self._unreachable.discard(node)
            self._tell("node_reachable", node)

    def _tell(self, ev, node, **more):
        if self._phase != _ENDED:  # the node's last event is written
            self._supervisor.events.append(ev, peer=self._names[node], **more)


_WORDS = {
    "asked": "its ranks were asked to stop",
    "rank_failed": "rank {} failed",
    "launcher_ended": "its launcher ended",
    "start_failed": "its ranks could not be started",
    "census": "its ranks are not those of the plan",
}
"""What is said of the node where a stop began."""
