"""`host:slots,host:slots`: what Horovod's `-H` takes (runner/common/util/hosts.py, `HostInfo`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.openmpi import colon_note
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, refuse_group, slots_of
from rankdeck_profiles.nodes import too_long

_HOST = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the list says."""
    told = False
    for line in lines:
        for text in filter(None, (part.strip() for part in line.text.split(","))):
            try:
                host, slots = _host_and_slots(text)
            except WordError as error:
                page.wrong(line, str(error), error.fix)
                continue
            page.add(line, host, slots)
            if not told:
                page.note(line, colon_note(slots))
                told = True


def _host_and_slots(text: str) -> tuple[str, int]:
    refuse_group(text)
    host, colon, number = text.rpartition(":")
    if not colon:
        raise WordError(f'"{text}" has no slots', f"write {text}:N, with N from 1")
    if not _HOST.fullmatch(host):
        raise WordError(
            f'"{host}" is no host name to Horovod: letters, digits, ".", "_" and "-" are allowed',
            "put user and port into ~/.ssh/config" if "@" in host else "",
        )
    if long := too_long(host):
        raise WordError(long)
    try:
        return host, slots_of(number)
    except WordError as error:
        raise WordError(f'"{text}": {error}', error.fix) from None
