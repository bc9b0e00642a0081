"""The agent as bytes: one deterministic zip, and the command line that brings it to life on a node.

A backend runs `bootstrap_command()` through the node's login shell, whichever it is, writes
`bootstrap_input()` to its standard input, and waits for the marker and the hello frame.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
import threading
import zipfile
from functools import cache
from pathlib import Path

from rankdeck_backends.slimming import slimmed

PYTHONS = (
    "python3",
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "/usr/libexec/platform-python",  # RHEL 8 has this one even where no python3 was installed
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python3.9",
    "python3.8",
    "python3.7",
    "python3.6",
)
"""Interpreters to try on a node, in this order; the first one of 3.6 or later that runs is taken."""

NO_PYTHON = b"RANKDECK-NO-PYTHON"
"""Printed, followed by what was tried, where no interpreter was found."""
OLD_PYTHON = b"RANKDECK-OLD-PYTHON"
"""Printed, followed by `path (version)`, where only interpreters before 3.6 were found."""
NO_FOLDER = b"RANKDECK-NO-FOLDER"
"""Printed, followed by `folder: why` for each, where no node folder can be written."""

_AGENT = Path(__file__).parent / "agent"
_PACKAGE = "rankdeck_agent"
_MAIN = f"import sys\nfrom {_PACKAGE}.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold

# One statement list without a quote, dollar, backtick, backslash or exclamation mark: it stands in double
# quotes for sh, which stand in single quotes for the login shell. FileIO does not read
# ahead: whatever is read too much here would be lost to what follows.
_FIRST_LINE = (
    "import io,sys;sys.version_info<(3,6)and sys.exit(97);f=io.FileIO(0,closefd=False);"
    "g=lambda n:(lambda d:d+g(n-len(d))if d else d)(f.read(n));exec(g(int(g(8))))"
)


@cache
def agent_zip() -> bytes:
    """The agent as a zip, byte for byte the same for the same sources; comments and docstrings stay here."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for path in sorted(_AGENT.glob("*.py")):
            if path.name != "bootstrap.py":
                _add(archive, f"{_PACKAGE}/{path.name}", slimmed(path.read_bytes()))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    info.create_system = 3  # Unix, wherever the zip was made
    archive.writestr(info, data)


def bootstrap_command() -> str:
    """The command line for a node's login shell. sh, bash, dash, zsh, csh, tcsh and fish read it alike."""
    return (
        "sh -c '"
        f"for p in {' '.join(PYTHONS)}; do "
        "q=$(command -v $p 2>/dev/null) || continue; "
        f'"$q" -I -S -c "{_FIRST_LINE}"; s=$?; '
        'case $s in 97) o="$o $q ("$("$q" -V 2>&1)")";; 126|127) ;; *) exit $s;; esac; '
        "done; "
        f'if [ -n "$o" ]; then echo {OLD_PYTHON.decode()}$o; '
        f"else echo {NO_PYTHON.decode()} tried {' '.join(PYTHONS)}; fi; exit 127'"
    )


def bootstrap_argv(python: str) -> list[str]:
    """The same beginning without any shell, for an interpreter whose path is known."""
    return [python, "-I", "-S", "-c", _FIRST_LINE]


_PACKING = threading.Lock()
"""Held while the agent is packed: threads that want it at the same time get the same one."""


class Packed:
    """The agent for all nodes of a backend: packed once, in a thread.

    That takes a tenth of a second and more, in which the loop would serve no other connection.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[bytes] | None = None

    def begin(self) -> asyncio.Task[bytes]:
        """Have it packed while something else is waited for."""
        if self._task is None:
            self._task = asyncio.create_task(asyncio.to_thread(bootstrap_input), name="pack the agent")
        return self._task

    async def input(self) -> bytes:
        """`bootstrap_input()`."""
        return await asyncio.shield(self.begin())  # others wait for it, too


def bootstrap_input() -> bytes:
    """What the channel's standard input gets first; frames may follow once the marker has come."""
    with _PACKING:
        return _bootstrap_input()


@cache
def _bootstrap_input() -> bytes:
    archive = agent_zip()
    digest = hashlib.sha256(archive).hexdigest()[:16]
    first = f'ZIP_NAME = "agent-{digest}.zip"\nread_exactly = exactly_from(f)\n'
    reader = (
        "def exactly_from(file):\n"
        "    def read(n):\n"
        "        data = b''\n"
        "        while len(data) < n:\n"
        "            part = file.read(n - len(data))\n"
        "            if not part:\n"
        "                sys.exit('the channel ended before the agent had arrived')\n"
        "            data += part\n"
        "        return data\n"
        "    return read\n"
    )
    source = (reader + first).encode() + (_AGENT / "bootstrap.py").read_bytes()
    return b"%08d" % len(source) + source + struct.pack(">I", len(archive)) + archive
