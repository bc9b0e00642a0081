"""The record's metrics.jsonl: a line for each line of a log that held metrics. It may be deleted.

    {"rank":3,"log":"rank-00003.out","at":1834,"end":1880,"t":1764357010.2,"step":40,"values":{"loss":0.41}}
    {"log":"rank-00003.out","read":1048576}

`at` and `end` are the line's offsets in the log, `t` when it was read (unix seconds) if the run was followed
then. Numbers that JSON does not have are the texts "nan", "inf" and "-inf". The second form says how far a
log has been read where nothing was found. Lines that tell of bytes before what is known of that log are
doubles: two rankdecks that follow one run write each its own. So the file only grows, and who reads it goes
on where it ends. Deleted, it is made anew from the logs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rankdeck_runs import layout
from rankdeck_runs.metrics.reader import Point

_LONGEST = 64 << 10


def point_line(log: str, rank: int, point: Point, now: float | None) -> str:
    """A point as a line of the file."""
    entry: dict[str, Any] = {"rank": rank, "log": log, "at": point.at, "end": point.end}
    if now is not None:
        entry["t"] = round(now, 3)
    if point.step is not None:
        entry["step"] = point.step
    entry["values"] = {
        name: value if math.isfinite(value) else str(value) for name, value in point.values.items()
    }
    return json.dumps(entry, separators=(",", ":")) + "\n"


def read_line(log: str, offset: int) -> str:
    """That a log was read as far as `offset`, as a line of the file."""
    return json.dumps({"log": log, "read": offset}, separators=(",", ":")) + "\n"


def append(path: Path, lines: Iterable[str]) -> tuple[int, int]:
    """Add lines with one write.

    Returns:
        Where the file ended before, and where it ends now: as far as nobody else wrote at the same moment.

    Raises:
        OSError: they can't be written.
    """
    data = "".join(lines).encode()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        before = os.fstat(handle).st_size
        if before and os.pread(handle, 1, before - 1) != b"\n":
            data = b"\n" + data  # a killed writer left a torn line
        written = os.write(handle, data)
        if written != len(data):
            raise OSError(28, "only a part of the metrics could be written", str(path))
        return before, before + written
    finally:
        os.close(handle)


def entries(path: Path, offset: int) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Lines from an offset on, each with the offset behind it; None for what is torn or garbage."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield offset, _parsed(line)
    except FileNotFoundError:
        return


def _parsed(line: bytes) -> Mapping[str, Any] | None:
    if len(line) > _LONGEST:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or layout.to_protocol(str(entry.get("log"))) is None:
        return None
    return entry


def point_of(entry: Mapping[str, Any]) -> Point | None:
    """The point that `point_line` wrote; None for anything else."""
    at, end, step, values = (entry.get(key) for key in ("at", "end", "step", "values"))
    if not isinstance(at, int) or not isinstance(end, int) or not isinstance(values, dict):
        return None
    numbers: dict[str, float] = {}
    for name, value in values.items():
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return Point(at, end, step if isinstance(step, int) else None, numbers)
