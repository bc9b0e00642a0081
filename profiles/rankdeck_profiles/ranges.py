"""Many names in few words: `gpu[001-003,007]-ib0` taken apart in the order written, and put together again.

The notation is Slurm's (scontrol(1), "hostlist") and ClusterShell's; ClusterShell sorts, while here the order
stays: the first node of a list is its head node. Groups of a site are ClusterShell's own (`groups`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

MAX_RANGE = 65536
"""The most names one range may stand for; more is a slip of the finger, and would be held in memory whole."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?", re.ASCII)
_NUMBERS = re.compile(r"\d+", re.ASCII)


class RangeError(ValueError):
    """A range that can't be read; the text says why."""


def expand(pattern: str) -> list[str]:
    """All names that a pattern stands for, in the order written, the last bracket counting fastest.

    Args:
        pattern: a name with any number of `[...]`, each a list of numbers and spans `low-high`, also with
            `/step`. A number's zeros in front are kept: `[08-11]` begins with 08, `[8-11]` with 8.

    Raises:
        RangeError: a bracket is empty or not closed, a span counts down, or it stands for too many names.
    """
    if "[" not in pattern and "]" not in pattern:
        return [pattern]
    pieces = _BRACKETS.split(pattern)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        raise RangeError("a bracket is not closed")
    choices: list[list[str]] = []
    total = 1
    for index, piece in enumerate(pieces):
        choices.append([piece] if index % 2 == 0 else _numbers(piece))
        total *= len(choices[-1])
        if total > MAX_RANGE:
            raise RangeError(_too_many())
    return ["".join(parts) for parts in itertools.product(*choices)]


def split(text: str) -> list[str]:
    """Entries between commas and blanks; commas inside brackets belong to a range."""
    entries: list[str] = []
    current, depth = "", 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if (character == "," or character.isspace()) and depth <= 0:
            if current:
                entries.append(current)
            current = ""
        else:
            current += character
    return [*entries, current] if current else entries


def fold(names: Iterable[str]) -> list[str]:
    """Names as ranges, in the same order: neighbours that differ by one in one number are put together."""
    folded: list[str] = []
    row: list[str] = []
    for name in names:
        if row and not _follows(row, name):
            folded.append(_as_range(row))
            row = []
        row.append(name)
    return [*folded, _as_range(row)] if row else folded


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise RangeError(f'"{item}" in brackets is no number and no span')
        low, high, step = match[1], match[2] or match[1], int(match[3] or 1)
        if int(high) < int(low):
            raise RangeError(f'"{item}" counts down')
        if step < 1:
            raise RangeError(f'"{item}" has a step of 0')
        if len(found) + (int(high) - int(low)) // step >= MAX_RANGE:
            raise RangeError(_too_many())
        width = len(low) if low.startswith("0") else 0
        found += [f"{number:0{width}d}" for number in range(int(low), int(high) + 1, step)]
    return found


def _too_many() -> str:
    return f"more than {MAX_RANGE} nodes in one range"


def _follows(row: list[str], name: str) -> bool:
    """Whether a name is the next one of a row: the same but for one number, which is one more."""
    at = _place(row[0], row[1]) if len(row) > 1 else _place(row[0], name)
    if at is None:
        return False
    start, width = at
    before = row[-1]
    head, tail = row[0][:start], row[0][start + width :]
    if not (name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)):
        return False
    number, last = name[start : len(name) - len(tail)], before[start : len(before) - len(tail)]
    if not _NUMBERS.fullmatch(number) or int(number) != int(last) + 1:
        return False
    padded = row[0][start : start + width].startswith("0") and width > 1
    return len(number) == width if padded else not number.startswith("0")


def _place(first: str, second: str) -> tuple[int, int] | None:
    """Where the last number stands in which two names differ: its start and width in the first."""
    for match in reversed(list(_NUMBERS.finditer(first))):
        head, tail = first[: match.start()], first[match.end() :]
        inner = second[match.start() : len(second) - len(tail)]
        if second.startswith(head) and second.endswith(tail) and _NUMBERS.fullmatch(inner):
            return match.start(), match.end() - match.start()
    return None


def _as_range(row: list[str]) -> str:
    at = _place(row[0], row[1]) if len(row) > 1 else None
    if at is None:
        return row[0]
    start, width = at
    tail = len(row[0]) - start - width
    low, high = row[0][start : start + width], row[-1][start : len(row[-1]) - tail]
    return f"{row[0][:start]}[{low}-{high}]{row[0][start + width :]}"
