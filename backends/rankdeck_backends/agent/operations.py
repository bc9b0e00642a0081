"""What a session does by children of its own: the table of operations and their time limits."""

from . import check, probe, reading, start, stop
from .follow import Follow
from .jobs import Job

__all__ = ["BY_CHILD", "RESUME", "Follow", "Job"]

BY_CHILD = {
    # op: (function, seconds)
    "probe": (probe.answer, 15.0),
    "shared": (reading.shared, 15.0),
    "check": (check.answer, 900.0),
    "start": (start.answer, 60.0),
    "read": (reading.read, 30.0),
    "stop": (stop.answer, 7 * 86400.0),
    "signal": (stop.signal_ranks, 30.0),
}
RESUME = (start.resume, 60.0)
