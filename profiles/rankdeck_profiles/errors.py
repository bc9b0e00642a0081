"""The one root of rankdeck's own exceptions, and those of the profiles floor."""

from __future__ import annotations


class RankdeckError(Exception):
    """Something that a person can act on.

    Attributes:
        message: what went wrong, naming the thing, the value found and the values allowed.
        hint: what the person can do about it; may be empty.
        where: the key of a profile or pool that it is about, such as `("options", "ps")`; may be empty.
    """

    where: tuple[str | int, ...] = ()
    exit_status = 2
    """The status the command line ends with: 1 failed, 2 command line or file wrong, 3 node not reached."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ProfileError(RankdeckError):
    """A saved profile is missing, unreadable or says something that cannot be."""


class PoolError(RankdeckError):
    """A node pool is missing, unreadable or empty."""


class PlanError(RankdeckError):
    """Profile, pool and facts do not fit together (counts, slots, options)."""


class FieldError(PlanError):
    """One key of a profile cannot be so, whatever the nodes are. The file's reader adds file and line."""

    def __init__(self, where: tuple[str, ...], message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.where = where
