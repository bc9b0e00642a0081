"""`host slots=N`: Open MPI's host files, and DeepSpeed's, which are the same with fewer words.

Keys are those of PRRTE's reader (src/util/hostfile/hostfile_lex.l); DeepSpeed knows `slots` alone
(launcher/runner.py, `fetch_hostfile`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import Word, WordError, port_of, slots_of, word_of
from rankdeck_profiles.nodes import is_user

SLOTS = ("slots", "slot", "cpus", "cpu", "count")
LIMITS = (
    "max_slots",
    "max-slots",
    "slots_max",
    "slots-max",
    "cpus_max",
    "cpus-max",
    "count_max",
    "count-max",
)
USERS = ("user", "username", "user_name", "user-name")
ALLOWED = '"host", "host slots=N" or "host slots=N port=P", with N from 1'

_EQUALS = re.compile(r"\s*=\s*")


@dataclass(slots=True)
class _Options:
    slots: int | None = None
    port: int | None = None
    user: str | None = None


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the lines say."""
    for line in lines:
        first, *rest = _EQUALS.sub("=", line.text).split()
        if first.startswith("^"):
            page.wrong(line, "a line with ^ takes a host away from an allocation", "leave the line out")
            continue
        try:
            _add(line, page, word_of(first), _options(line, page, rest))
        except WordError as error:
            page.wrong(line, str(error), error.fix)


def _add(line: Line, page: Page, word: Word, options: _Options) -> None:
    slots = options.slots
    if word.number is not None:
        if slots is not None:
            raise WordError(
                f"both :{word.number} and slots={slots}", f"write port={word.number} if it is sshd's port"
            )
        slots = slots_of(str(word.number))
        page.note(line, colon_note(word.number))
    for host in word.hosts:
        page.add(line, host, slots, options.user or word.user, options.port or word.port)


def colon_note(number: int) -> str:
    """How `host:N` was read."""
    return f":{number} was read as {number} slots, as MPICH and Horovod do; a port is written port={number}"


def _options(line: Line, page: Page, words: Sequence[str]) -> _Options:
    found = _Options()
    before: dict[str, tuple[str, str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.lower()
        meant = "slots" if key in SLOTS else "user" if key in USERS else key
        was, first = before.setdefault(meant, (value, word))
        if equals and was != value:
            raise WordError(f"both {first} and {word}", "keep one of them")
        if not equals:
            raise WordError(f'"{word}" is not known here; a line is {ALLOWED}', _meant(word))
        if key in SLOTS:
            found.slots = slots_of(value)
        elif key == "port":
            found.port = port_of(value)
        elif key in USERS:
            if not is_user(value):
                raise WordError(f'"{value}" is no user name')
            found.user = value
        elif key in LIMITS:
            page.note(line, f"{word} was skipped: rankdeck starts no more ranks than slots")
        else:
            raise WordError(f'"{key}" is not known here; a line is {ALLOWED}')
    return found


def _meant(word: str) -> str:
    return f"write slots={word}" if word.isdigit() else "write several hosts on several lines"
