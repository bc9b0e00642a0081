"""What a session does by children of its own: the table of operations and their time limits."""

from . import check, probe, reading, start, stop
from .follow import Follow
from .jobs import Job

__all__ = ["BY_CHILD", "RESUME", "Follow", "Job", "limit_of"]

BY_CHILD = {
    # op: (function, seconds)
    "probe": (probe.answer, 15.0),
    "shared": (reading.shared, 15.0),
    "check": (check.answer, 900.0),
    "start": (start.answer, 60.0),
    "read": (reading.read, 30.0),
    "stop": (stop.answer, 7 * 86400.0),
    "signal": (stop.signal_ranks, 30.0),
    "finish": (stop.finish_ranks, 30.0),
    "launcher_ended": (stop.launcher_ended, 30.0),
}
_SETUP_SECONDS = 900.0


def limit_of(request):
    """`(function, seconds)` for a request: a probe that runs setup lines takes as long as they do."""
    function, seconds = BY_CHILD[request["op"]]
    asks_more = request["op"] == "probe" and (request.get("mpi") or request.get("software"))
    return function, _SETUP_SECONDS if asks_more else seconds


RESUME = (start.resume, 60.0)
