"""The Host names of the user's ssh config, those of its Includes too."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from rankdeck_backends import ssh_includes
from rankdeck_profiles.hostfiles import Duplicates, Format, Hostfile, Remark
from rankdeck_profiles.hostfiles.model import Line
from rankdeck_profiles.hostfiles.page import Page
from rankdeck_profiles.hostfiles.words import WordError, word_of


def read(patterns: Sequence[str] = ()) -> Hostfile:
    """The hosts that a person has named, in the order of the config.

    Args:
        patterns: such as `gpu*`; a name is taken if one fits. None: all names.

    Returns:
        Nodes by their Host names: user, port, jump hosts and the rest stay the config's. Patterns (`Host *`)
        name no node. Problems name what could not be used.

    Raises:
        PoolError: a config can't be read.
    """
    files = ssh_includes.default_configs()
    shown = ", ".join(map(str, files)) or "no ssh config is here"
    page = Page(Format.PLAIN, f"Host names of {shown}")
    seen: set[str] = set()
    skipped = 0
    for statement in ssh_includes.statements(files):
        if statement.keyword != "host":
            continue
        for name in statement.words:
            if any(c in name for c in "*?!") or name in seen:
                continue
            seen.add(name)
            if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
                skipped += 1
                continue
            line = Line(statement.line, name)
            try:
                (host,) = word_of(name).hosts
            except (WordError, ValueError):
                page.notes.append(Remark(None, f"{statement.path}:{statement.line}: {name} is no host name"))
                continue
            page.add(line, host, None)
    if skipped:
        page.note(None, f"{skipped} more Host names do not fit {' or '.join(patterns)}")
    return page.result(Duplicates.STOP)
