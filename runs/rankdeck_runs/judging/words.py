"""What a failing program's logs say of its end: what sort of trouble, whose, and where it stands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankdeck_runs import diagnosis
from rankdeck_runs.causes import CauseKind, Proof
from rankdeck_runs.failures import Failure
from rankdeck_runs.judging import ends, patterns
from rankdeck_runs.judging.patterns import Blame, Pattern, Work
from rankdeck_runs.sanitise import plain

LONGEST_PROOF = 500
_BLOCK = 12
"""Lines after an exception's that belong to it: torch puts NCCL's own words there."""
_CHAINED = re.compile(
    r"^(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):"
)
_UNTOLD = {
    CauseKind.NODE: "node",
    CauseKind.START: "start",
    CauseKind.SETUP: "setup",
    CauseKind.LAUNCHER: "launcher",
}


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log."""

    log: str
    """Name of its file in the record's `logs/`."""
    data: bytes
    base: int = 0
    """Where in the log `data` begins."""
    rank: int | None = None
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that has something on it, as harmless text without torch's rank prefix."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of one program's end."""

    message: str
    evidence: tuple[str, ...]
    reason: str
    said: str
    blame: Blame
    spoken: bool
    """Whether its logs, its signal or its node tell why."""
    proofs: tuple[Proof, ...] = ()
    work: Work | None = None
    by_log: bool = False
    """Whether its log alone tells it: an exception, or a line of a known sort."""


@dataclass(frozen=True, slots=True)
class _Hit:
    """A telling line."""

    line: Line
    end: LogEnd
    pattern: Pattern

    @property
    def proof(self) -> Proof:
        text = self.line.text.strip()[:LONGEST_PROOF]
        return Proof(text, self.end.log, self.line.offset, self.end.rank, self.end.stream)


def of_failure(failure: Failure, err: LogEnd, out: LogEnd) -> Words:
    """What is said of a failure.

    Args:
        failure: what failed.
        err: the end of the failing program's error log.
        out: the end of its output.
    """
    told = diagnosis.explain(failure, err.data, out.data)
    read = [(end, lines_of(end)) for end in (err, out)]
    exceptions = [hit for end, lines in read for hit in _exceptions(end, lines)]
    hit = _worst(exceptions) or _worst([hit for end, lines in read for hit in _known(end, lines)])
    seen = tuple(Proof(text) for _, text in failure.seen)
    work = patterns.work_of(line.text for _, lines in read for line in lines)
    if told.message.startswith(("mpi-slots:", "mpi-transport:", "mpi-daemon:")):
        reason = told.message.partition(":")[0]
        return Words(told.message, told.evidence, reason, "", Blame.OWN, spoken=True, by_log=True)
    if failure.rank is None and told.message in diagnosis.refusals(err.data, out.data):
        # This project's own part under a launcher: what the launcher makes of its end is no reason.
        proofs = (*_proof_of(told.message, None, read), *seen)
        return Words(told.message, told.evidence, "refused", "", Blame.OWN, True, proofs, by_log=True)
    if hit is None or ends.is_oom(failure):
        return _by_the_end(failure, told.message, told.evidence, read, seen)
    # An exception in a chain may tell more than the one that the program died of.
    message = hit.line.text.strip()[: diagnosis.LONGEST_MESSAGE] if hit in exceptions else told.message
    proofs = (hit.proof, *_proof_of(message, hit, read), *seen)
    said = _with_work(hit.pattern.said, work) if hit.pattern.blame is not Blame.OWN else hit.pattern.said
    return Words(
        message, told.evidence, hit.pattern.reason, said, hit.pattern.blame, True, proofs, work, by_log=True
    )


def _with_work(said: str, work: Work | None) -> str:
    return f"{said} ({work.operation} number {work.stuck})" if work is not None else said


def lines_of(end: LogEnd) -> list[Line]:
    """The lines of a log's end, with where each begins in the log."""
    found = []
    offset = end.base
    for raw in end.data.split(b"\n"):
        text = diagnosis.without_rank(plain(raw))
        if text.strip():
            found.append(Line(offset, text.rstrip()))
        offset += len(raw) + 1
    return found


def _exceptions(end: LogEnd, lines: Sequence[Line]) -> Iterator[_Hit]:
    """The exceptions of the last traceback and of those that it is chained to, the last one first."""
    texts = [line.text for line in lines]
    last: int | None = len(texts)
    while last is not None and (found := diagnosis.traceback_in(texts[:last])) is not None:
        # Its words end where another traceback begins.
        stop = min(found.last + 1 + _BLOCK, last)
        known = patterns.of_block(texts[found.last : stop])
        yield _Hit(lines[found.last], end, known or _PYTHON)
        before = texts[: found.first]
        last = found.first if before and _CHAINED.match(before[-1].lstrip()) else None


_PYTHON = Pattern("exception", "a Python exception ended it", re.compile(""))


def _known(end: LogEnd, lines: Sequence[Line]) -> Iterator[_Hit]:
    """The lines of a known sort, the last one first."""
    whole = "\n".join(line.text for line in lines)
    worth = patterns.worth(whole)
    if not worth and not patterns.CRASH.may_be_in(whole) and not patterns.CPP.may_be_in(whole):
        return
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        pattern = patterns.of_line(line.text, worth)
        if pattern is None and patterns.CRASH.line.search(line.text):
            pattern = patterns.CRASH
        if pattern is None and (thrown := patterns.CPP.line.search(line.text)):
            pattern = patterns.of_block(each.text for each in lines[index : index + 3])
            # The process group's watchdog throws these: what it watched is told elsewhere.
            if pattern is None and not (thrown[1] or "").startswith("c10::Dist"):
                pattern = patterns.CPP
        if pattern is not None:
            yield _Hit(line, end, pattern)


def _worst(hits: Sequence[_Hit]) -> _Hit | None:
    """The one that tells most; of several, the one nearest to the end."""
    best: _Hit | None = None
    for hit in hits:
        if best is None or hit.pattern.blame > best.pattern.blame:
            best = hit
    return best


def _by_the_end(
    failure: Failure,
    message: str,
    evidence: tuple[str, ...],
    read: Sequence[tuple[LogEnd, list[Line]]],
    seen: tuple[Proof, ...],
) -> Words:
    """What its status or signal means, where no line of a known sort is in its logs."""
    if failure.signal or ends.is_oom(failure):
        reason, said = ends.of_signal(failure)
        blame = Blame.PEER_GONE if reason == "told-to-end" else Blame.OWN
        proofs = (*seen, *_last_proof(read))
        return Words(message, evidence, reason, said, blame, spoken=True, proofs=proofs)
    if failure.kind in _UNTOLD:
        proofs = (*_proof_of(message, None, read), *seen)
        return Words(message, evidence, _UNTOLD[failure.kind], "", Blame.OWN, spoken=True, proofs=proofs)
    reason, said = ends.of_status(failure.code) if failure.code is not None else ("", "")
    if spoken := tuple(_proof_of(message, None, read)) if diagnosis.is_error(message) else ():
        reason, said = reason or "log", said or "as its log says"
        return Words(message, evidence, reason, said, Blame.OWN, spoken=True, proofs=(*spoken, *seen))
    proofs = (*seen, *_last_proof(read))
    if reason:
        return Words(message, evidence, reason, said, Blame.OWN, spoken=True, proofs=proofs)
    wrote = any(lines for _, lines in read)
    why = "no error is in its logs, which end here" if wrote else "it wrote nothing"
    said = "; ".join([f"why is not known: {why}", *([said] if said else [])])
    return Words(message, evidence, "unknown", said, Blame.OWN, spoken=False, proofs=proofs)


def _proof_of(message: str, told: _Hit | None, read: Sequence[tuple[LogEnd, list[Line]]]) -> Iterator[Proof]:
    """Where the message is written, unless that is told already."""
    for end, lines in read:
        for line in reversed(lines):
            if line.text.strip()[: diagnosis.LONGEST_MESSAGE] != message:
                continue
            hit = _Hit(line, end, _PYTHON)
            if told is None or hit.proof != told.proof:
                yield hit.proof
            return


def _last_proof(read: Sequence[tuple[LogEnd, list[Line]]]) -> Iterator[Proof]:
    """The last line that it wrote."""
    for end, lines in read:
        if lines:
            yield _Hit(lines[-1], end, _PYTHON).proof
            return
