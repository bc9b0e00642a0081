"""A failure's cause in the failing program's own words. Pure: bytes in, a cause out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rankdeck_runs import known_lines
from rankdeck_runs.causes import Cause, CauseKind
from rankdeck_runs.failures import Failure
from rankdeck_runs.known_lines import Sorted
from rankdeck_runs.sanitise import plain

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
# A program in Python that called mpirun: what mpirun said tells more.
_CALLED = re.compile(r"\bCalledProcessError\b")
_ERROR_LIKE = re.compile(
    r"\b(?:error|fatal|exception|panic(?:ked)?|abort(?:ed)?|assert(?:ion)?|failed|failure|cannot|can't|"
    r"could not|unable to|not found|no such|denied|refused|killed|out of memory|terminate called|"
    r"segmentation fault|core dumped|traceback|timed out|version mismatch)\b|[a-z]Error\b|[a-z]Exception\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """An error in a log."""

    message: str
    first: int
    """Index of the first of the lines that belong to it."""
    last: int


def explain(failure: Failure, err: bytes, out: bytes) -> Cause:
    """The cause, told by the ends of the failing program's logs.

    Where a launcher failed and its mpirun names the rank that ended its job, the cause has that rank.

    Args:
        failure: the first failure.
        err: the end of its error log.
        out: the end of its output, looked at if the error log has nothing to say.
    """
    of_err, of_out = known_lines.sort(_lines(err)), known_lines.sort(_lines(out))
    for told in (of_err, of_out):
        found = _in_its_words(failure, told)
        if found is not None:
            return found
    return _last_words(failure, of_err, of_out)


def refusals(*logs: bytes) -> set[str]:
    """Why this project's own part under a launcher did not run a rank, as far as these logs say so."""
    return {refusal for log in logs if (refusal := known_lines.sort(_lines(log)).refusal)}


def told_elsewhere(failure: Failure, rank: int | None, err: bytes) -> Cause | None:
    """The cause where the failing program is silent and another one's log has what no MPI goes on after.

    Args:
        failure: the first failure.
        rank: whose log it is; None: a launcher's.
        err: the end of that error log.
    """
    told = known_lines.sort(_lines(err))
    if not told.fatal:
        return None
    evidence = (failure.message, *told.lines[-MOST_EVIDENCE:])
    return _cause(failure, failure.rank if rank is None else rank, told.fatal, evidence)


def _in_its_words(failure: Failure, told: Sorted) -> Cause | None:
    """The cause as one log tells it; None if no error is in it."""
    ended = told.ended
    beside = [failure.message, *told.harmless, *([ended.text] if ended else [])]
    rank = ended.rank if ended and failure.kind is CauseKind.LAUNCHER else failure.rank
    if told.refusal and failure.rank is None:
        return _cause(failure, rank, told.refusal, (*beside, *told.lines[-MOST_EVIDENCE:]))
    traceback = traceback_in(told.lines)
    if told.fatal and (traceback is None or _CALLED.search(traceback.message)):
        return _cause(failure, rank, told.fatal, (*beside, *told.lines[-MOST_EVIDENCE:]))
    found = traceback or _error_line(told.lines)
    if found is not None:
        return _cause(failure, rank, found.message, (*beside, *_around(told.lines, found)))
    if ended is not None:
        return _cause(failure, rank, ended.text, (*beside, *told.lines[-MOST_EVIDENCE:]))
    return None


def _last_words(failure: Failure, err: Sorted, out: Sorted) -> Cause:
    """The cause where no log holds an error.

    What it wrote last on its error log is its last word, if it ended by its own doing.
    """
    by_itself = failure.kind not in (CauseKind.SIGNAL, CauseKind.UNKNOWN)
    told = [line for line in err.lines if known_lines.is_told(line)]
    spoken = told[-1] if told and by_itself else failure.message
    shown = (err.lines or out.lines)[-MOST_EVIDENCE:]
    evidence = (failure.message, *err.harmless, *out.harmless, *shown)
    return _cause(failure, failure.rank, spoken, evidence)


def _cause(failure: Failure, rank: int | None, message: str, evidence: tuple[str, ...]) -> Cause:
    kept = tuple(line[:LONGEST_EVIDENCE] for line in evidence)
    return Cause(rank, failure.node, failure.kind, message.strip()[:LONGEST_MESSAGE], kept)


def _lines(data: bytes) -> list[str]:
    """The lines that have something on them, as harmless text without torch's rank prefix."""
    texts = (without_rank(plain(line)) for line in data.split(b"\n"))
    return [text.rstrip() for text in texts if text.strip()]


def is_error(line: str) -> bool:
    """Whether a line's words are those of an error, or it is an exception's."""
    if not known_lines.is_told(line):
        return False
    return _ERROR_LIKE.search(line) is not None or is_exception(line)


def is_traceback(line: str) -> bool:
    """Whether a traceback begins with the line."""
    return _TRACEBACK.match(line) is not None


def is_exception(line: str) -> bool:
    """Whether the line may be the exception that a traceback ends with."""
    return _EXCEPTION.match(line) is not None


def without_rank(line: str) -> str:
    """A line without the rank that torch.distributed's exception hook puts before it."""
    return _RANK_PREFIX.sub("", line)


def traceback_in(lines: Sequence[str]) -> Found | None:
    """The exception that the last traceback ends in: with chained exceptions, the one the program died of."""
    start = next((i for i in range(len(lines) - 1, -1, -1) if is_traceback(lines[i])), None)
    if start is None:
        return None
    for index in range(start + 1, len(lines)):
        line = lines[index]
        # Frames, their source and its markers are indented; the exception stands at the beginning of its
        # line.
        if not line[0].isspace() and is_exception(line):
            return Found(line, start, index)
    return None


def _error_line(lines: Sequence[str]) -> Found | None:
    for index in range(len(lines) - 1, -1, -1):
        if _ERROR_LIKE.search(lines[index]) and known_lines.is_told(lines[index]):
            return Found(lines[index], index, index)
    return None


def _around(lines: Sequence[str], found: Found) -> list[str]:
    """The error's own lines and some after it; of a long traceback, its beginning and its end."""
    block = list(lines[found.first : found.last + 1])
    after = lines[found.last + 1 :][:4]
    before = lines[max(found.first - 2, 0) : found.first] if found.first == found.last else ()
    if len(block) > MOST_EVIDENCE - 6:
        half = (MOST_EVIDENCE - 7) // 2
        block = [*block[:half], f"  ... {len(block) - 2 * half} lines left out ...", *block[-half:]]
    return [*before, *block, *after]
