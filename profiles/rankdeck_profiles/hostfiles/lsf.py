"""A job's hosts in LSF: `host N host N` (LSB_MCPU_HOSTS), `N*host` (EXEC_HOST), `host host` (LSB_HOSTS).

IBM Spectrum LSF, "Environment variables set for job execution". Sites that start a job's script on a machine
of its own list that one first, with one slot ("launch node", IBM jsrun).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankdeck_profiles.hostfiles.model import LeftOut, Line
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, slots_of, word_of

_TIMES = re.compile(r"(\d+)\*(.+)", re.ASCII)
_STEM = re.compile(r"[^0-9]*")


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the lines say, the launch host left out."""
    for line in lines:
        words = [word for word in re.split(r"[\s:,]+", line.text) if word]
        if is_pairs(words):
            entries = list(zip(words[::2], words[1::2], strict=True))
        else:
            entries = [_times(word) for word in words]
        for host, slots in entries:
            try:
                (name,) = word_of(host).hosts
                page.add(line, name, slots_of(slots) if slots else None)
            except (WordError, ValueError) as error:
                page.wrong(line, str(error), "a list is: host N host N, or N*host N*host")
    _leave_out_launch_host(page)


def is_pairs(words: Sequence[str]) -> bool:
    """Whether it is `host N host N`: every second word is a number, and no first one."""
    return (
        len(words) >= 2
        and len(words) % 2 == 0
        and all(word.isdigit() for word in words[1::2])
        and not any(word.isdigit() for word in words[::2])
    )


def is_times(word: str) -> bool:
    """Whether it is `N*host`."""
    return bool(_TIMES.fullmatch(word))


def _times(word: str) -> tuple[str, str]:
    match = _TIMES.fullmatch(word)
    return (match[2], match[1]) if match else (word, "")


def _leave_out_launch_host(page: Page) -> None:
    """The first host, where it has one slot, is named otherwise than all others, and these have more."""
    if len(page.found) < 2 or (page.found[0].slots or 1) != 1:
        return
    first, *others = page.found
    names = {other.host for other in others}
    if first.host in names or (first.slots is not None and any((other.slots or 1) < 2 for other in others)):
        return
    if first.slots is None and len(names) == len(others):
        return
    if _stem(first.host) in {_stem(name) for name in names}:
        page.note(None, f"{first.host} has one slot: leave it out if it is only the launch host (--exclude)")
        return
    page.found.remove(first)
    page.left_out.append(
        LeftOut(first.host, 1, "the launch host: first, with one slot, and named otherwise than the others")
    )


def _stem(name: str) -> str:
    match = _STEM.match(name)
    return match[0] if match else ""
