"""`host:slots,host:slots`: what Horovod's `-H` takes (runner/common/util/hosts.py, `HostInfo`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.openmpi import colon_note
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, slots_of

_HOST = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def read(lines: Sequence[Line], page: Page) -> None:
    """Write down what the list says."""
    told = False
    for line in lines:
        for text in filter(None, (part.strip() for part in line.text.split(","))):
            host, colon, number = text.rpartition(":")
            if not colon:
                page.wrong(line, f'"{text}" has no slots', f"write {text}:N, with N from 1")
            elif not _HOST.fullmatch(host):
                page.wrong(
                    line,
                    f'"{host}" is no host name to Horovod: letters, digits, ".", "_" and "-" are allowed',
                    "put user and port into ~/.ssh/config" if "@" in host else "",
                )
            else:
                try:
                    page.add(line, host, slots_of(number))
                except WordError as error:
                    page.wrong(line, f'"{text}": {error}', error.fix)
                    continue
                if not told:
                    page.note(line, colon_note(int(number)))
                    told = True
