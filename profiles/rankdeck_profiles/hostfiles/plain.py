"""A host a line, a host on more lines having more slots; also Slurm's node lists, with ranges.

PBS (`PBS_NODEFILE`) and LSF (`LSB_DJOB_HOSTFILE`) write a line for each slot; LSF's `LSB_HOSTS` is the same
on one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles import ranges
from rankdeck_profiles.hostfiles.model import Format, Line
from rankdeck_profiles.hostfiles.openmpi import colon_note
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, slots_of, word_of

ALLOWED = '"host", "host slots=N" or "host:N", with N from 1'


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the lines say."""
    for line in lines:
        texts = ranges.split(line.text)
        if len(lines) > 1 and len(texts) > 1 and "," not in line.text and page.format is not Format.SLURM:
            word = texts[1]
            fix = f"write slots={word}" if word.isdigit() else "write several hosts on several lines"
            page.wrong(line, f'"{word}" is not known here; a line is {ALLOWED}', fix)
            continue
        for text in texts:
            try:
                _add(line, page, text)
            except WordError as error:
                page.wrong(line, str(error), error.fix)


def _add(line: Line, page: Page, text: str) -> None:
    word = word_of(text)
    slots = None
    if word.number is not None:
        slots = slots_of(str(word.number))
        page.note(line, colon_note(word.number))
    for host in word.hosts:
        page.add(line, host, slots, word.user, word.port)
