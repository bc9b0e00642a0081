"""A line of an ssh config taken apart as OpenSSH does it. Imports little: lists of hosts use it, too."""

from __future__ import annotations

import re
import shlex

_KEYWORD = re.compile(r'"?(\w+)"?(?:\s*=\s*|\s+|$)(.*)', re.DOTALL)


def split(line: str) -> tuple[str, list[str]]:
    """The keyword, and the words behind it; a comment at the end is none of them.

    Args:
        line: without blanks around it; neither empty nor a comment. An `=` behind the keyword is a blank.

    Raises:
        ValueError: a quotation is not closed.
    """
    found = _KEYWORD.match(line)
    if found is None:
        keyword, *words = shlex.split(line) or [""]
        return keyword, words
    return found[1], shlex.split(_without_comment(found[2]))


def _without_comment(text: str) -> str:
    """The text before a `#` that begins a word, as OpenSSH's argv_split has it."""
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (at == 0 or text[at - 1].isspace()):
            return text[:at]
    return text
