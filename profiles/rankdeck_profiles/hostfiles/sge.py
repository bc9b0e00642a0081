"""Grid Engine's PE_HOSTFILE: `host slots queue processors` a line (sge_pe(5), "start_proc_args")."""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, slots_of, word_of

COLUMNS = 4


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the lines say. One host in several queues has the slots of all."""
    slots: dict[str, int] = {}
    where: dict[str, Line] = {}
    for line in lines:
        words = line.text.split()
        try:
            if len(words) not in (COLUMNS - 1, COLUMNS):
                raise WordError("a line is: host slots queue processors")
            (host,) = word_of(words[0]).hosts
            count = slots_of(words[1])
        except WordError as error:
            page.wrong(line, str(error), error.fix)
            continue
        if host in slots:
            page.note(line, f"{host} is there in several queues: its slots are added up")
        slots[host] = slots.get(host, 0) + count
        where.setdefault(host, line)
    for host, count in slots.items():
        page.add(where[host], host, count)


def is_line(words: Sequence[str]) -> bool:
    """Whether a line has these columns: the second is a number, the third a queue (`all.q@host`, `all.q`)."""
    return (
        len(words) in (COLUMNS - 1, COLUMNS)
        and words[1].isdigit()
        and ("@" in words[2] or words[2].endswith(".q"))
    )
