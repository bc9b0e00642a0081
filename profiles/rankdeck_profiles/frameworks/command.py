"""`command`: any program, started as it is.

One process a node unless the profile says otherwise. Each has the same variables as with `pytorch`, so a
plain program, or a script that calls a launcher of its own, knows which node it is on and where the head is.
"""

from __future__ import annotations

from rankdeck_profiles.frameworks.base import Framework, NodeJob, NodeWork
from rankdeck_profiles.frameworks.identity import rank_processes
from rankdeck_profiles.model import Profile


class Command(Framework):
    """One process a node, by default."""

    name = "command"
    summary = "Any program, one on each node; also a script that calls a launcher of its own"
    advice = "It is started as it is, with RANK and the rest set; how it shares the work is its own affair."
    may_launch = True

    def default_procs(self, profile: Profile, slots: int) -> int:
        """One, however many slots there are: the program may use them all."""
        return 1

    def work(self, job: NodeJob) -> NodeWork:
        """One process a rank with its full environment."""
        return rank_processes(job)
