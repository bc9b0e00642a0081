"""What a session does by children of its own: the table of operations and their time limits."""

from . import check, log_in, look, meet, probe, reading, start, stop, tokens
from .follow import Follow
from .jobs import Job

__all__ = ["BY_CHILD", "RESUME", "Follow", "Job", "limit_of"]

BY_CHILD = {
    # op: (function, seconds)
    "probe": (probe.answer, 15.0),
    "look": (look.answer, 45.0),
    "listen": (meet.listen, 60.0),
    "reach": (meet.reach, 30.0),
    "log_in": (log_in.answer, 120.0),
    "reverse": (meet.reverse, 6.0),
    "token": (tokens.token, 30.0),
    "shared": (reading.shared, 15.0),
    "check": (check.answer, 900.0),
    "start": (start.answer, 60.0),
    "read": (reading.read, 30.0),
    "stop": (stop.answer, 7 * 86400.0),
    "signal": (stop.signal_ranks, 30.0),
    "finish": (stop.finish_ranks, 30.0),
}
_SETUP_SECONDS = 900.0


def limit_of(request):
    """`(function, seconds)` for a request: what runs setup lines takes as long as they do."""
    function, seconds = BY_CHILD[request["op"]]
    sets_up = request.get("setup") or request.get("mpi") or request.get("software")
    return function, _SETUP_SECONDS if request["op"] in ("probe", "look") and sets_up else seconds


RESUME = (start.resume, 60.0)
