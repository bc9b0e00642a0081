"""`command`: any program, started as it is.

One process a node unless the profile says otherwise. Each has the same variables as with `pytorch`, so a
plain program, or a script that calls a launcher of its own, knows which node it is on and where the head is.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.frameworks.base import NodeJob
from rankdeck_profiles.frameworks.per_process import rank_processes
from rankdeck_profiles.plan import Need, Process


class Command:
    """One process a node, by default."""

    name = "command"
    options: Mapping[str, str] = {}
    same_count_everywhere = False
    sets_itself: frozenset[str] = frozenset()

    def default_procs(self, slots: int) -> int:
        """One, however many slots there are: the program may use them all."""
        return 1

    def needs(self, python: str) -> tuple[Need, ...]:
        """Nothing beside the program."""
        return ()

    def processes(self, job: NodeJob) -> tuple[tuple[Process, ...], Mapping[str, str]]:
        """One process a rank with its full environment."""
        return rank_processes(job)

    def received(self, word: str) -> str:
        """The word itself: there is no launcher between."""
        return word

    def sent(self, word: str) -> str:
        """The word itself."""
        return word
