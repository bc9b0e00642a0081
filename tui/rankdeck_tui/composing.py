"""What a person composes: a saved profile and pool, with a few values changed. No widgets here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_profiles import frameworks, planner, pools, selection
from rankdeck_profiles.errors import PoolError, RankdeckError
from rankdeck_profiles.library import Library
from rankdeck_profiles.model import Pool, Profile
from rankdeck_profiles.overrides import Override
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_runs import layout
from rankdeck_runs.record import Record

COUNTS = ("nodes", "procs_per_node", "process_count")
FIELDS = (*COUNTS, "args", "env", "workdir", "python")
"""The keys that can be changed here; all others are the saved file's."""


class FieldError(RankdeckError):
    """One field holds something that can't be.

    Attributes:
        field: its name, one of `FIELDS`, `profile` or `pool`.
    """

    def __init__(self, field: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.field = field


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything typed, at one moment: what a plan is made of."""

    profile: str
    """A saved profile's name, or a path."""
    pool: str | None
    """A saved pool's name, or a path; None: the profile's own."""
    values: Mapping[str, str]
    """Field -> text as typed; a field that was not touched is not in it."""


class Composition:
    """A profile and a pool, by name or path, with the values changed so far."""

    def __init__(self, library: Library, profile: str, pool: str | None = None, *, title: str = "") -> None:
        """Begin with a saved profile.

        Args:
            library: saved profiles and pools.
            profile: a name, or a path to a TOML file.
            pool: likewise; None: what the profile names.
            title: what is composed, where it is not a saved profile.
        """
        self.library = library
        self.profile = profile
        self.pool = pool
        self.title = title
        self.aliases: dict[str, str] = {}
        """Paths that go by another name on screen."""
        self.values: dict[str, str] = {}

    @classmethod
    def of_record(cls, library: Library, record: Record, run_id: str) -> Composition:
        """A run's own profile and pool, as recorded."""
        summary = record.summary()
        pool_path = str(record.path / layout.POOL_TOML)
        made = cls(library, str(record.profile_path), pool_path, title=f"again: {run_id}")
        made.aliases = {
            str(record.profile_path): f"{summary.profile} (as recorded)",
            pool_path: f"{summary.pool} (as recorded)",
        }
        return made

    def shown(self, name: str) -> str:
        """A profile's or pool's name as it is shown."""
        return self.aliases.get(name, name)

    def profile_names(self) -> list[str]:
        """What may be chosen: what it began with, then the saved ones."""
        names = [profile.name for profile in self.library.profiles()]
        return names if self.profile in names else [self.profile, *names]

    def pool_names(self) -> list[str]:
        """What may be chosen: what is in use, the saved ones, this machine."""
        names = [pool.name for pool in self.library.pools()]
        if pools.LOCAL not in names:
            names.append(pools.LOCAL)
        used = self.pool_name()
        return names if used in names else [used, *names]

    def pool_name(self) -> str:
        """The pool in use, by name or path."""
        if self.pool is not None:
            return self.pool
        try:
            return self.library.profile(self.profile).pool or pools.LOCAL
        except RankdeckError:
            return pools.LOCAL

    def draft(self) -> Draft:
        """All of it, frozen."""
        return Draft(self.profile, self.pool, dict(self.values))

    def saved_values(self) -> dict[str, str]:
        """What the profile's file says in each field, as text."""
        try:
            profile = self.library.profile(self.profile)
        except RankdeckError:
            return dict.fromkeys(FIELDS, "")
        return {
            **{key: "" if getattr(profile, key) is None else str(getattr(profile, key)) for key in COUNTS},
            "args": shlex.join(profile.args),
            "env": shlex.join(f"{name}={value}" for name, value in profile.env.items()),
            "workdir": profile.workdir,
            "python": profile.python,
        }

    def ranks_hint(self) -> str:
        """How many ranks a node has where the profile does not say."""
        try:
            profile = self.library.profile(self.profile)
        except RankdeckError:
            return ""
        return ranks_by_default(profile)


def ranks_by_default(profile: Profile) -> str:
    """How many ranks its framework gives a node, in words."""
    return "one for each slot" if frameworks.one_a_slot(profile) else "one"


def resolve(library: Library, draft: Draft) -> tuple[Profile, Pool]:
    """A draft as profile and pool, checked as their files are.

    Raises:
        FieldError: what is wrong, and in which field.
    """
    chosen = _chosen(draft.values.get("nodes", ""))
    typed = {**draft.values, "nodes": ""} if chosen else draft.values
    overrides = [_override(name, text) for name, text in typed.items()]
    try:
        profile = library.profile(draft.profile, overrides)
    except RankdeckError as error:
        raise _placed(error, overrides) from None
    try:
        pool = library.pool_for(profile, draft.pool)
    except PoolError as error:
        raise FieldError("pool", error.message, error.hint) from None
    try:
        part = selection.select(pool, chosen)
        return selection.fitted(profile, chosen, pool, part, draft.values), part
    except PoolError as error:
        raise FieldError("nodes", error.message, error.hint) from None


def plan_offline(library: Library, draft: Draft) -> LaunchPlan:
    """The plan without having asked any node.

    Raises:
        FieldError: a field is wrong.
        PlanError: profile and pool do not fit together.
    """
    profile, pool = resolve(library, draft)
    return planner.plan(profile, pool, None)


def _chosen(text: str) -> selection.Choice:
    """The nodes that the field of nodes names; a choice of nothing where it is empty or a number of nodes.

    GPUs (`n1:0,2`) and DeepSpeed's @ between names are an include.
    """
    text = text.strip()
    if not text or text.lstrip("-").isdigit():
        return selection.Choice()
    if ":" in text or "@" in text[1:]:
        return selection.Choice(include=text)
    return selection.Choice(nodes=text)


def _override(name: str, text: str) -> Override:
    value: Any = text
    if name in COUNTS:
        value = _count(name, text)
    elif name == "args":
        value = words_of(name, text)
    elif name == "env":
        value = variables_of(text)
    elif name == "workdir" and not text.strip():
        value = None
    elif name == "python":
        value = text.strip() or Profile(name="", framework="").python
    return Override((name,), value, name)


def _placed(error: RankdeckError, overrides: list[Override]) -> FieldError:
    """The error with the field it is about; what the command line would call it is left out."""
    for override in overrides:
        prefix = f"--set {override.text}: "
        if error.message.startswith(prefix):
            return FieldError(override.keys[0], error.message[len(prefix) :], error.hint)
    return FieldError("profile", error.message, error.hint)


def _count(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    try:
        return int(text)
    except ValueError:
        raise FieldError(
            name, f"{name} = {text!r}", "a whole number, 1 or more; empty for the default"
        ) from None


def words_of(name: str, text: str) -> list[str]:
    """Text as words, with quotes as in a shell and nothing expanded.

    Args:
        name: the field, for the message.
        text: as typed.

    Raises:
        FieldError: a quote is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as problem:
        raise FieldError(
            name, f"{name}: {problem}", "close the quote, or put a backslash before it"
        ) from None


def variables_of(text: str) -> dict[str, str]:
    """`NAME=value NAME2="two words"` as a mapping.

    Raises:
        FieldError: a word is no assignment.
    """
    found: dict[str, str] = {}
    for word in words_of("env", text):
        name, equals, value = word.partition("=")
        if not equals:
            raise FieldError(
                "env", f"env: {word!r} has no =", 'write NAME=value, and quotes around blanks: A="b c"'
            )
        found[name] = value
    return found
