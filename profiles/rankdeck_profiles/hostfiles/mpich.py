"""`host:slots`: the machine files of MPICH's Hydra and of Intel MPI.

From MPICH's wiki, "Using the Hydra Process Manager": a host a line, `:N` its processes, and words such as
`binding=` behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles import ranges
from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.openmpi import colon_note
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, slots_of, word_of
from rankdeck_profiles.nodes import is_user

ALLOWED = '"host" or "host:N", with N from 1'


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the lines say."""
    told = False
    for line in lines:
        words = line.text.split()
        options = [word for word in words if "=" in word]
        try:
            user = _user(line, page, options)
            for text in _hosts(line, [word for word in words if word not in options]):
                word = word_of(text)
                slots = slots_of(str(word.number)) if word.number is not None else None
                if word.number is not None and not told:
                    page.note(line, colon_note(word.number))
                    told = True
                for host in word.hosts:
                    page.add(line, host, slots, user or word.user, word.port)
        except WordError as error:
            page.wrong(line, str(error), error.fix)


def _hosts(line: Line, words: Sequence[str]) -> list[str]:
    if len(words) > 1 and "," not in line.text:
        fix = f"write {words[0]}:{words[1]}" if words[1].isdigit() else "write several hosts on several lines"
        raise WordError(f'"{words[1]}" is not known here; a line is {ALLOWED}', fix)
    return ranges.split(" ".join(words))


def _user(line: Line, page: Page, words: Sequence[str]) -> str | None:
    user = None
    for word in words:
        key, _, value = word.partition("=")
        if key == "user" and is_user(value):
            if user not in (None, value):
                raise WordError(f"both user={user} and {word}", "keep one of them")
            user = value
        elif key in ("binding", "ifname"):
            page.note(line, f"{word} was skipped: it is the launcher's")
        else:
            raise WordError(f'"{word}" is not known here; a line is {ALLOWED}')
    return user
