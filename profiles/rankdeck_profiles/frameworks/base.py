"""What a framework is asked, and what it is given to answer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.model import Profile
from rankdeck_profiles.plan import Head, Need, Process

if TYPE_CHECKING:
    from rankdeck_profiles.placement import Placement, Share
    from rankdeck_profiles.settings import Setting


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What one node has to run: all that a framework needs to make its processes."""

    profile: Profile
    placement: Placement
    share: Share
    head: Head
    address: str
    """The node's own address, as other nodes reach it."""
    cwd: str
    python: str
    program: tuple[str, ...]
    """The program before its arguments; taken literally."""
    args: tuple[str, ...]
    """The profile's arguments, with `$RANK`-like names not yet filled in."""
    common: tuple[Setting, ...]
    """The environment that does not depend on the framework."""


class Framework(Protocol):
    """One way of starting a program's ranks. Pure: the same job gives the same processes."""

    name: str
    """As in a profile's `framework`."""
    options: Mapping[str, str]
    """The settings it knows in a profile's `[options]`, each with what is allowed."""
    same_count_everywhere: bool
    """True: every node must have the same number of ranks."""
    sets_itself: frozenset[str]
    """Variables that the framework's own launcher sets for each rank, whatever `[env]` says."""

    def default_procs(self, slots: int) -> int:
        """How many ranks a node with that many slots gets if the profile does not say."""
        ...

    def needs(self, python: str) -> tuple[Need, ...]:
        """What must be on every node beside the program itself."""
        ...

    def processes(self, job: NodeJob) -> tuple[tuple[Process, ...], Mapping[str, str]]:
        """The processes of one node, and the reason for each variable they have."""
        ...

    def received(self, word: str) -> str:
        """A word of a process's `program` as the rank gets it from the framework's launcher."""
        ...

    def sent(self, word: str) -> str:
        """A word as the launcher must be handed it, so that the rank gets it as it is: undoes `received`."""
        ...


def check_options(framework: Framework, options: Mapping[str, Any]) -> None:
    """Refuse settings that a framework does not know.

    Raises:
        PlanError: names the setting and those that are known.
    """
    for key in options:
        if key in framework.options:
            continue
        near = difflib.get_close_matches(key, framework.options, n=1)
        known = ", ".join(framework.options)
        raise PlanError(
            f"unknown setting '{key}' in [options] for framework {framework.name}"
            + (f"; did you mean '{near[0]}'?" if near else ""),
            f"allowed: {known}"
            if known
            else f"{framework.name} has no settings of its own: remove [options]",
        )
