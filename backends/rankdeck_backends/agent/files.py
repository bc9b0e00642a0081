"""Files that a launcher reads: written beside the run before it starts, named by `@FILES@` in its words."""

import os

from .encoding import raw
from .errors import AgentError
from .requests import field
from .run_folder import write_private

PLACE = b"@FILES@"


def check(process):
    """Refuse names that would lie elsewhere."""
    given = field(dict(process, op="start: process"), "files", dict, {})
    for name, text in given.items():
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise AgentError("bad_request", "start: file {!r}; allowed: a plain file name".format(name))
        if not isinstance(text, str):
            raise AgentError("bad_request", "start: file {!r}: its text is missing".format(name))


def write(folder, plan):
    """Write the files of all processes, 0600.

    Raises:
        AgentError: two processes have different files of one name.
        OSError: the disk does not take them.
    """
    wanted = {}
    for process in plan["processes"]:
        for name, text in (process.get("files") or {}).items():
            if wanted.setdefault(name, text) != text:
                raise AgentError("bad_request", "start: two processes have different files {!r}".format(name))
    if not wanted:
        return
    os.makedirs(folder.files, mode=0o700, exist_ok=True)
    for name, text in wanted.items():
        write_private(os.path.join(folder.files, raw(name)), raw(text))


def named(folder, words):
    """A launcher's words (bytes) with the place of its files filled in."""
    return [word.replace(PLACE, folder.files) for word in words]
