"""What a session does by children of its own: the table of operations and their time limits."""

import importlib

from . import check, probe, reading, start, stop
from .follow import Follow
from .jobs import Job

__all__ = ["BY_CHILD", "RESUME", "Follow", "Job", "limit_of"]


def _late(module, name):
    """An operation whose module only its child imports: no other request waits for the seldom ones."""

    def function(request, send):
        return getattr(importlib.import_module("." + module, __package__), name)(request, send)

    return function


BY_CHILD = {
    # op: (function, seconds)
    "probe": (probe.answer, 15.0),
    "look": (_late("look", "answer"), 45.0),
    "recount": (_late("recount", "answer"), 10.0),
    "listen": (_late("meet", "listen"), 60.0),
    "reach": (_late("meet", "reach"), 30.0),
    "log_in": (_late("log_in", "answer"), 120.0),
    "reverse": (_late("meet", "reverse"), 6.0),
    "token": (_late("tokens", "token"), 30.0),
    "shared": (reading.shared, 15.0),
    "check": (check.answer, 900.0),
    "start": (start.answer, 60.0),
    "read": (reading.read, 30.0),
    "digest": (reading.digest, 86400.0),
    "remove": (_late("removing", "remove"), 600.0),
    "stop": (stop.answer, 7 * 86400.0),
    "signal": (stop.signal_ranks, 30.0),
}
_SETUP_SECONDS = 900.0


def limit_of(request):
    """`(function, seconds)` for a request: what runs setup lines takes as long as they do."""
    function, seconds = BY_CHILD[request["op"]]
    sets_up = request.get("setup") or request.get("mpi") or request.get("software")
    return function, _SETUP_SECONDS if request["op"] in ("probe", "look") and sets_up else seconds


RESUME = (start.resume, 60.0)
