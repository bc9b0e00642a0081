"""What a framework is asked, and what it is given to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks.inner import refuse_launchers
from rankdeck_profiles.frameworks.options import Option, check_options, value_of
from rankdeck_profiles.leftovers import LEFTOVERS, Leftover
from rankdeck_profiles.model import Profile
from rankdeck_profiles.plan import Head, Need, Process

if TYPE_CHECKING:
    from rankdeck_profiles.facts import NodeFacts
    from rankdeck_profiles.model import Pool
    from rankdeck_profiles.placement import Placement, Share
    from rankdeck_profiles.settings import Setting

__all__ = ["Framework", "NodeJob", "NodeWork", "Option", "default_counts", "expand_home"]


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What one node has to run: all that a framework needs to make its processes."""

    profile: Profile
    pool: Pool
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
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    """What the nodes said, by name; nodes that were not asked are not in it."""
    fabric: tuple[Setting, ...] | None = None
    """What the fabric rules set for MPI's own connections; None: too little is known for them."""

    @property
    def found(self) -> NodeFacts | None:
        """What this node said."""
        return self.facts.get(self.share.node.name)

    @property
    def is_head(self) -> bool:
        """Whether rank 0 is here."""
        return self.share.node_rank == 0

    def at_home(self, path: str) -> str:
        """A path on this node, with its home in place of a leading `~`."""
        return expand_home(path, self.found.home if self.found else "")

    def address_of(self, share: Share) -> str:
        """The address other nodes reach a node at: what it said, else the pool's host."""
        found = self.facts.get(share.node.name)
        return found.address if found and found.address else share.node.host


def expand_home(word: str, home: str) -> str:
    """A word that is `~` or begins with `~/`, with the node's home; unchanged where that is not known."""
    if home and (word == "~" or word.startswith("~/")):
        return home.rstrip("/") + word[1:] or "/"
    return word


@dataclass(frozen=True, slots=True)
class NodeWork:
    """A framework's answer for one node."""

    processes: tuple[Process, ...]
    reasons: Mapping[str, str]
    """Why each variable of the processes and of `rank_env` has its value."""
    rank_env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    """What must be on this node beside the program itself."""
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


class Framework:
    """One way of starting a program's ranks. Pure: the same job gives the same processes."""

    name: str = ""
    """As in a profile's `framework`."""
    summary: str = ""
    """When to choose it, in a line, in the user's words."""
    advice: str = ""
    """What its scripts have to do, or be told, in a line."""
    options: Mapping[str, Option] = {}
    """The settings it knows in a profile's `[options]`."""
    sets_itself: frozenset[str] = frozenset()
    """Variables that the framework's own launcher sets for each rank, whatever `[env]` says."""
    per_rank: frozenset[str] = frozenset()
    """Variables that it computes for each rank: one value for all, in `[env]`, would make them one rank."""
    removes: tuple[Leftover, ...] = LEFTOVERS
    """The families of other launchers' variables that must not be there."""
    software: tuple[str, ...] = ()
    """Distributions whose versions in the profile's python decide what it does."""
    asks_mpi = False
    """True: it needs to know the nodes' mpirun (`NodeFacts.mpi`)."""
    may_launch = False
    """True: the program may be a launcher of its own."""

    def option(self, profile: Profile, key: str) -> Any:
        """A setting's value, or its default."""
        return value_of(self.options, profile.options, key)

    def check(self, profile: Profile) -> None:
        """Refuse what no nodes could make right: unknown settings, an inner launcher.

        Raises:
            FieldError: names the key.
        """
        check_options(self.name, self.options, profile.options)
        if not self.may_launch:
            refuse_launchers(profile)

    def default_procs(self, profile: Profile, slots: int) -> int:
        """How many ranks a node with that many slots gets if the profile does not say."""
        return slots

    def counts(self, profile: Profile, names: Sequence[str], slots: Sequence[int]) -> list[int] | None:
        """How many ranks each node gets, where that follows from the framework's own settings.

        Raises:
            PlanError: they do not fit together.
        """
        return None

    def same_count(self, profile: Profile) -> bool:
        """True: every node must have the same number of ranks."""
        return False

    def fills_slots(self, profile: Profile) -> bool:
        """True: a rank takes a slot (a GPU), so no node may have more ranks than slots."""
        return True

    def starts_more(self, profile: Profile) -> bool:
        """True: each rank starts one more process a slot by itself, and the CPUs are shared among those."""
        return False

    def work(self, job: NodeJob) -> NodeWork:
        """The processes of one node.

        Raises:
            PlanError: this node, or all together, cannot run it so.
        """
        raise NotImplementedError


def default_counts(
    framework: Framework, profile: Profile, names: Sequence[str], slots: Sequence[int]
) -> list[int]:
    """How many ranks each node gets where the profile gives no count.

    Raises:
        PlanError: the slots differ and the framework cannot have that.
    """
    counts = [framework.default_procs(profile, count) for count in slots]
    if framework.same_count(profile) and len(set(counts)) > 1:
        found = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
        raise PlanError(
            f"{framework.name} needs the same number of ranks on every node, and the slots differ: {found}",
            f"set procs_per_node, such as {min(counts)}",
        )
    return counts
