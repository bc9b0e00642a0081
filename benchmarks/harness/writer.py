"""The rank that writes: its program, built from writer.c, and how its lines look."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

LINE = 100
"""Bytes of a line, its end included."""
STAMP = 18
"""Bytes at its beginning that hold the time of its write in Unix seconds and a blank."""

_SOURCE = Path(__file__).with_name("writer.c")


def build(folder: Path) -> Path:
    """Compile the program.

    Raises:
        SystemExit: there is no C compiler.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("cc is not installed: the ranks that write are a small C program (Debian: gcc)")
    program = folder / "writer"
    subprocess.run([compiler, "-O2", "-Wall", "-o", str(program), str(_SOURCE)], check=True)
    return program


def late(pieces: Iterable[tuple[float, bytes]], since: float) -> list[float]:
    """Seconds from write to arrival of every line that arrived after `since`.

    Args:
        pieces: what arrived from the log's first byte on, each with the time of its arrival.
        since: Unix seconds.
    """
    found = []
    rest = b""
    for when, piece in pieces:
        data = rest + piece
        whole = len(data) - len(data) % LINE
        if when >= since:
            found += [when - float(data[at : at + STAMP]) for at in range(0, whole, LINE)]
        rest = data[whole:]
    return found
