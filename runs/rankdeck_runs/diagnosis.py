"""A failure's cause in the failing program's own words. Pure: bytes in, a cause out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdeck_runs.failures import Failure
from rankdeck_runs.sanitise import plain
from rankdeck_runs.states import Cause, CauseKind

MOST_EVIDENCE = 24
"""Lines of evidence kept."""
LONGEST_MESSAGE = 500
LONGEST_EVIDENCE = 2000

# torch.distributed's own exception hook puts the rank before each line: "[rank3]: Traceback (most ...".
_RANK_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
_TRACEBACK = re.compile(r"^\s*(?:\+ Exception Group )?Traceback \(most recent call last\):")
# "KeyError: 'x'", "torch.OutOfMemoryError: CUDA ...", "KeyboardInterrupt": a dotted name at the line's
# beginning.
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: .*|:)?$")
_ERROR_LIKE = re.compile(
    r"\b(?:error|fatal|exception|panic(?:ked)?|abort(?:ed)?|assert(?:ion)?|failed|failure|cannot|can't|"
    r"could not|unable to|not found|no such|denied|refused|killed|out of memory|terminate called|"
    r"segmentation fault|core dumped|traceback)\b|[a-z]Error\b|[a-z]Exception\b",
    re.IGNORECASE,
)

# On hosts without IPv6, torch says this of each try, and then goes on over IPv4 (torch/csrc/distributed/
# c10d/socket.cpp).
_HARMLESS = re.compile(r"\(errno: 97 - Address family not supported by protocol\)")


@dataclass(frozen=True, slots=True)
class Found:
    """An error in a log."""

    message: str
    first: int
    """Index of the first of the lines that belong to it."""
    last: int


def explain(failure: Failure, err: bytes, out: bytes) -> Cause:
    """The cause, told by the ends of the failing program's logs.

    Args:
        failure: the first failure.
        err: the end of its error log.
        out: the end of its output, looked at if the error log has nothing to say.
    """
    status = failure.message
    for data in (err, out):
        lines = _lines(data)
        found = _traceback(lines) or _error_line(lines)
        if found is not None:
            return _cause(failure, found.message, (status, *_around(lines, found)))
    lines = _lines(err) or _lines(out)
    evidence = (status, *lines[-MOST_EVIDENCE:])
    if lines and failure.kind is not CauseKind.SIGNAL:
        # It ended by its own doing: what it wrote last on its error log is its last word.
        spoken = _lines(err)
        if spoken:
            return _cause(failure, spoken[-1], evidence)
    return _cause(failure, status, evidence)


def _cause(failure: Failure, message: str, evidence: tuple[str, ...]) -> Cause:
    kept = tuple(line[:LONGEST_EVIDENCE] for line in evidence)
    return Cause(failure.rank, failure.node, failure.kind, message.strip()[:LONGEST_MESSAGE], kept)


def _lines(data: bytes) -> list[str]:
    """The lines that have something on them, as harmless text without torch's rank prefix."""
    texts = (_RANK_PREFIX.sub("", plain(line)) for line in data.split(b"\n"))
    return [text.rstrip() for text in texts if text.strip()]


def _traceback(lines: list[str]) -> Found | None:
    """The exception that the last traceback ends in: with chained exceptions, the one the program died of."""
    start = next((i for i in range(len(lines) - 1, -1, -1) if _TRACEBACK.match(lines[i])), None)
    if start is None:
        return None
    for index in range(start + 1, len(lines)):
        line = lines[index]
        # Frames, their source and its markers are indented; the exception stands at the beginning of its
        # line.
        if not line[0].isspace() and _EXCEPTION.match(line):
            return Found(line, start, index)
    return None


def _error_line(lines: list[str]) -> Found | None:
    for index in range(len(lines) - 1, -1, -1):
        if _ERROR_LIKE.search(lines[index]) and not _HARMLESS.search(lines[index]):
            return Found(lines[index], index, index)
    return None


def _around(lines: list[str], found: Found) -> list[str]:
    """The error's own lines and some after it; of a long traceback, its beginning and its end."""
    block = lines[found.first : found.last + 1]
    after = lines[found.last + 1 :][:4]
    before = lines[max(found.first - 2, 0) : found.first] if found.first == found.last else []
    if len(block) > MOST_EVIDENCE - 6:
        half = (MOST_EVIDENCE - 7) // 2
        block = [*block[:half], f"  ... {len(block) - 2 * half} lines left out ...", *block[-half:]]
    return [*before, *block, *after]
