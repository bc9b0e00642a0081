"""A profile's `[metrics]`: regular expressions that name numbers in what ranks write. Pure.

Python's `re` tries every way in which a pattern could match, holds the interpreter's lock meanwhile and
can't be interrupted. A pattern such as `(a+)+$` takes 2^n steps for a line of n characters, so those that can
are refused here; see Kirrage, Rathnayake and Thielecke, "Static Analysis for Regular Expression
Denial-of-Service Attacks" (2013). What is left is a polynomial, which `rankdeck_runs.metrics` bounds by the
line's length and by a watch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

STEP = "step"
"""The group that gives a point's place on the axis, not a series."""

_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_FEW = 16
"""A repeat of at most so many rounds multiplies, but does not explode."""


class MetricPatternError(ValueError):
    """The pattern can't be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class MetricPattern:
    """A pattern that may be used.

    Attributes:
        name: its key in the profile.
        regex: compiled.
        groups: group number -> the series it gives; `STEP` is the step.
        needs: text that is in every line that matches; empty if none is known.
    """

    name: str
    regex: re.Pattern[str]
    groups: dict[int, str]
    needs: str

    @classmethod
    def parse(cls, name: str, pattern: str) -> MetricPattern:
        """Read one entry of `[metrics]`.

        Args:
            name: its key: the series' name where the pattern has one group.
            pattern: the regular expression. Several groups are named, and give a series each.

        Raises:
            MetricPatternError: it is no regular expression, gives no number, or could take for ever.
        """
        try:
            regex = re.compile(pattern)
            tree = _parser.parse(pattern)
        except (re.error, OverflowError, RecursionError) as problem:
            raise MetricPatternError(f"not a regular expression: {problem}", f"found: {pattern}") from None
        if endless := _endless(tree):
            raise MetricPatternError(
                f"could take for ever on some line: {endless}",
                "repeat one thing at a time: (\\d+) in place of (\\d+)+, [^,]*, in place of (.*,)*",
            )
        return cls(name, regex, _groups(name, regex), "" if regex.flags & re.IGNORECASE else _needs(tree))


def _groups(name: str, regex: re.Pattern[str]) -> dict[int, str]:
    if regex.groups == 1:
        return {1: name}
    named = {number: group for group, number in regex.groupindex.items()}
    if regex.groups == 0 or len(named) < regex.groups:
        what = "its one group matches" if not named else "its groups match, which all need names"
        raise MetricPatternError(
            f"has {regex.groups} groups; the value is what {what}",
            "put ( ) around the number; (?: ) groups without counting; several numbers: (?P<name> )",
        )
    return named


def _endless(tree: Any) -> str:
    """Why matching could take exponentially long; empty: it can't."""
    for code, value in _all(tree):
        if code in _REPEATS and value[1] > _FEW:
            for inner, what in _all(value[2]):
                if inner in _REPEATS and what[0] != what[1]:
                    return "a repeat within a repeat"
                if inner is op.BRANCH and _alike(what[1]):
                    return "a repeat of alternatives that can begin alike"
                if inner is op.GROUPREF:
                    return "a repeat of a back reference"
    return ""


def _all(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every operation of a pattern. A possessive repeat never goes back: it is none of `_REPEATS`."""
    for code, value in tree:
        yield code, value
        if code in _REPEATS:
            yield from _all(value[2])
        elif code is op.SUBPATTERN:
            yield from _all(value[3])
        elif code is op.BRANCH:
            for branch in value[1]:
                yield from _all(branch)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _all(value[1])
        elif code is op.GROUPREF_EXISTS:
            for branch in value[1:]:
                yield from _all(branch or ())
        elif code is op.ATOMIC_GROUP:
            yield from _all(value)
        elif code is op.POSSESSIVE_REPEAT:
            yield from _all(value[2])


def _alike(branches: Any) -> bool:
    """Whether two alternatives may begin with the same character: only letters that differ surely do not."""
    begins = [branch[0] if len(branch) else None for branch in branches]
    letters = [begin[1] for begin in begins if begin is not None and begin[0] is op.LITERAL]
    return len(letters) < len(branches) or len(set(letters)) < len(letters)


def _needs(tree: Any) -> str:
    """The longest text that the pattern asks for whatever else it finds."""
    best = run = ""
    for code, value in tree:
        run = run + chr(value) if code is op.LITERAL else ""
        best = max(best, run, key=len)
    return best
