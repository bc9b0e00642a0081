"""`$RANK`-like names in a profile's arguments: checked when the profile is read, filled in per rank.

The grammar is small so that every place that fills them in (here, the rank shim on the node, a printed shell
script) does the same: `$NAME` or `${NAME}` with one of `NAMES`, and `$$` for a dollar. Anything else after a
dollar is an error when the profile is read; data is never handed to a shell to expand.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

NAMES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""The names that are filled in."""

_TOKEN = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII
)


class PlaceholderError(ValueError):
    """An argument holds a dollar that means nothing.

    Attributes:
        index: which of the arguments, from 0.
        column: where in it the dollar is, from 1.
        found: the text that was not understood, such as `$HOME`.
        hint: what can be written instead.
    """

    def __init__(self, index: int, column: int, found: str, hint: str) -> None:
        super().__init__(f"{found} at column {column} is not one of the names that are filled in")
        self.index = index
        self.column = column
        self.found = found
        self.hint = hint


def check(args: Sequence[str]) -> None:
    """Refuse arguments with a dollar that is neither a known name nor `$$`.

    Raises:
        PlaceholderError: for the first one found.
    """
    for index, arg in enumerate(args):
        end = 0
        while (start := arg.find("$", end)) >= 0:
            match = _TOKEN.match(arg, start)
            name = _name(match) if match else None
            if match is None or (name is not None and name not in NAMES):
                found = match[0] if match else arg[start : start + 2]
                raise PlaceholderError(index, start + 1, found, _hint(name, found))
            end = match.end()


def split(text: str) -> list[tuple[str, str | None]]:
    """Take a text apart.

    Returns:
        Pairs (literal, None) and ("", NAME) in order. Dollars that are not a known name or `$$` are
        literal text, as the rank shim leaves them.
    """
    parts: list[tuple[str, str | None]] = []
    literal = ""
    end = 0
    for match in _TOKEN.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        name = _name(match)
        if name is None:
            literal += "$"
        elif name not in NAMES:
            literal += match[0]
        else:
            if literal:
                parts.append((literal, None))
            parts.append(("", name))
            literal = ""
    literal += text[end:]
    if literal or not parts:
        parts.append((literal, None))
    return parts


def fill(args: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments with every known name replaced by its value and `$$` by a dollar.

    Raises:
        KeyError: a name that is used has no value.
    """
    return tuple(
        "".join(literal if name is None else values[name] for literal, name in split(arg)) for arg in args
    )


def escape(text: str) -> str:
    """Text that `fill` gives back unchanged."""
    return text.replace("$", "$$")


def _name(match: re.Match[str]) -> str | None:
    return None if match["dollar"] else match["bare"] or match["braced"]


def _hint(name: str | None, found: str) -> str:
    allowed = ", ".join(f"${known}" for known in NAMES)
    near = difflib.get_close_matches((name or "").upper(), NAMES, n=1)
    suggestion = f"did you mean ${near[0]}? " if near else ""
    return f"{suggestion}filled in are {allowed}; write $${found[1:]} for the text {found} itself"
