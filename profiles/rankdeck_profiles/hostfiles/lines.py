"""A host file's text as lines, without comments, blank lines and what Windows and web pages leave in it."""

from __future__ import annotations

import re

from rankdeck_profiles.hostfiles.model import Line, Remark

_ENDS = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"
_INVISIBLE = re.compile("[\u00a0\u2007\u202f\u200b\u2060\ufeff]")
"""Blanks that are none to a launcher, and characters without width: they come by copying from web pages."""


def lines_of(text: str) -> tuple[list[Line], list[Remark]]:
    """The lines that say something, and what was taken away to read them.

    Args:
        text: the file, decoded; a byte order mark may still be in front.
    """
    notes: list[Remark] = []
    if text.startswith(_BOM):
        text = text[1:]
        notes.append(
            Remark(
                None, "a byte order mark at the start was skipped; others take it as part of the first name"
            )
        )
    if "\r" in text:
        notes.append(Remark(None, "Windows line ends (CR) were skipped; mpirun takes them as part of a name"))
    found = []
    for number, raw in enumerate(_ENDS.split(text), start=1):
        line = raw.split("#", 1)[0]
        if _INVISIBLE.search(line):
            notes.append(Remark(number, "a character that can't be seen was taken as a blank"))
            line = _INVISIBLE.sub(" ", line)
        if line := line.strip():
            found.append(Line(number, line))
    return found, notes
