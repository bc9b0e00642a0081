"""The same lines of many ranks once, as rows of a view: who said them, and the odd ones below."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from rankdeck_runs.growing import PATIENCE, GrowingLogs
from rankdeck_runs.logs import Line
from rankdeck_runs.same_lines import Said, SameLines
from rankdeck_runs.sanitise import plain
from rankdeck_runs.timeline import TimedLine, TimedLog
from rankdeck_tui import words
from rankdeck_tui.logs.background import InBackground
from rankdeck_tui.logs.headed import HeadedLine, moment
from rankdeck_tui.logs.pattern import Pattern

_LATER: Final = 1 << 42
"""Milliseconds that stand for a time that is not known."""
_REST: Final = 0.3
"""Seconds between two looks at least; and five times as long as making the rows took."""

Rows = tuple[Sequence[int], Sequence[HeadedLine], int]
"""Addresses, lines, and how many kinds of lines they are."""


class FoldedLog(InBackground):
    """What some ranks said, each line once, as they first said it. A thread of its own reads. Close it.

    Args:
        logs: whose lines.
        ranks: the ranks that are looked at, also those without a log.
        ended: whether nothing more will be written.
        odd_only: leave out what all ranks said alike.
    """

    def __init__(
        self,
        logs: Sequence[TimedLog],
        ranks: tuple[int, ...],
        ended: Callable[[], bool],
        *,
        odd_only: bool = False,
    ) -> None:
        super().__init__()
        self._logs = list(logs)
        self._ended = ended
        self._odd_only = odd_only
        self._same = SameLines(ranks)
        self._blocks: dict[TimedLog, list[TimedLine]] = {}
        """Of each log the block that may still go on."""
        self.said: Sequence[Said] = ()
        self.left_out = 0
        """Kinds of lines that were too many to be kept: the oldest."""
        self.rows: Rows = ((), (), 0)
        self.version = 0
        self.begin: float | None = None
        """Unix seconds from which on lines are taken; None: from the beginning."""
        self._begin("folded logs")

    def source(self, pattern: Pattern | None) -> FoldedLines:
        """All rows, or those of lines that a pattern keeps."""
        return FoldedLines(self, pattern)

    def behind(self) -> KindsSince:
        """Counts kinds of lines."""
        return KindsSince(self)

    def _work(self) -> None:
        logs = GrowingLogs(self._logs)
        self.begin = logs.begin
        made, since = -1, time.monotonic()
        while not self._closed.is_set():
            began = time.monotonic()
            ended = self._ended()
            lines = logs.more(ended=ended)
            for line in lines:
                self._take(line)
            if lines:
                since = began
            elif ended or began - since > PATIENCE:
                for log in list(self._blocks):
                    self._add(self._blocks.pop(log))
            if self._same.version != made:
                made = self._same.version
                self.rows = _rows(self._same, self.left_out, self._odd_only)
                self.version += 1
            if not lines:
                self._wake.wait()
                self._wake.clear()
            self._closed.wait(max(_REST, 5 * (time.monotonic() - began)) if not lines else 0)

    def _take(self, found: TimedLine) -> None:
        """Adds the line, or has it wait for what may go on with it."""
        if found.joins:
            self._blocks.setdefault(found.log, []).append(found)
        elif (block := self._blocks.pop(found.log, None)) is not None:
            self._add(block)
        if not found.joins and found.open:
            self._blocks[found.log] = [found]
        elif not found.joins:
            self._add([found])

    def _add(self, block: Sequence[TimedLine]) -> None:
        log = block[0].log
        lines = [plain(found.line.data) for found in block]
        self.left_out += len(self._same.add(log.rank, log.stream, block[0].seconds, lines, log.node))


def _rows(same: SameLines, left_out: int, odd_only: bool) -> Rows:
    addresses: list[int] = []
    lines: list[HeadedLine] = []
    said = sorted((s for s in same if not (odd_only and s.by_all)), key=_first_said)
    widest = max((len(_count(s)) for s in said), default=0)
    for entry in said:
        base = _first_said(entry)
        head = f"{moment(entry.first)} {_count(entry):>{widest}}"
        rank = entry.ranks[0] if len(entry.ranks) == 1 else None
        for number, (text, remark) in enumerate(_told(entry)):
            address = base | number
            addresses.append(address)
            before = " " * len(head) if number else head
            lines.append(
                HeadedLine(address, address + 1, text.encode(), before, rank, entry.stream, remark=remark)
            )
    if left_out:
        text = f"{words.plural(left_out, 'older kind')} of lines left out: choose ranks (M) or a stream (o)"
        addresses.insert(0, 0)
        lines.insert(0, HeadedLine(0, 1, text.encode(), " " * (11 + widest), None, "", True))
    return addresses, lines, len(said)


def _first_said(said: Said) -> int:
    seconds = said.first
    first = _LATER if seconds is None else max(0, min(int(seconds * 1000), _LATER - 1))
    return (first << 64) | (said.order << 16)


def _count(said: Said) -> str:
    times = said.each[1]
    return f"{len(said.ranks)}/{len(said.world)}" + (f" x{times}" if times > 1 else "")


def _told(said: Said) -> list[tuple[str, bool]]:
    """The rows of one line, and which are remarks: who said it if not all did, the text, the odd ones."""
    rows = [(text, False) for text in said.lines]
    if len(said.ranks) < len(said.world):
        rows.insert(0, (_named(said.ranks), True))
    return [*rows, *((f"  {_named(odd.ranks)}: {odd.text}", True) for odd in said.odd)]


def _named(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {words.as_ranges(ranks)}"


class FoldedLines:
    """What a view shows of a folded log."""

    def __init__(self, log: FoldedLog, pattern: Pattern | None) -> None:
        self._log = log
        self.pattern = pattern
        self._made: tuple[int, Rows] | None = None

    @property
    def _rows(self) -> Rows:
        version = self._log.version
        if self._made is None or self._made[0] != version:
            rows = self._log.rows
            self._made = (version, rows if self.pattern is None else _kept(rows, self.pattern))
        return self._made[1]

    @property
    def size(self) -> int:
        """Beyond the last row."""
        addresses = self._rows[0]
        return addresses[-1] + 1 if addresses else 0

    @property
    def version(self) -> int:
        """Changes when there are other rows than before."""
        self._log.look()
        return self._log.version

    @property
    def progress(self) -> tuple[int, float]:
        """Kinds of lines kept; all are looked at."""
        return self._rows[2], 1.0

    def share_before(self, offset: int) -> float:
        """How much comes before an address, 0 to 1."""
        addresses = self._rows[0]
        return bisect_left(addresses, offset) / len(addresses) if addresses else 1.0

    def after(self, offset: int, count: int) -> list[Line]:
        """Up to `count` rows at an address or later."""
        addresses, lines, _ = self._rows
        first = bisect_left(addresses, offset)
        return list(lines[first : first + max(count, 0)])

    def before(self, offset: int, count: int) -> list[Line]:
        """Up to `count` rows before an address, in order."""
        addresses, lines, _ = self._rows
        end = bisect_left(addresses, offset)
        return list(lines[max(0, end - max(count, 0)) : end])

    def close(self) -> None:
        """Nothing of its own to end."""


def _kept(rows: Rows, pattern: Pattern) -> Rows:
    """The rows of those lines, or whole tracebacks, in which a row is kept (of an inverted one: all rows)."""
    groups: dict[int, list[HeadedLine]] = {}
    for address, line in zip(rows[0], rows[1], strict=True):
        groups.setdefault(address >> 16, []).append(line)
    choose = all if pattern.inverted else any
    kept = [group for group in groups.values() if choose(pattern.keeps(plain(line.data)) for line in group)]
    lines = [line for group in kept for line in group]
    return [line.offset for line in lines], lines, len(kept)


class KindsSince:
    """Counts the kinds of lines that have come since a moment."""

    complete = True

    def __init__(self, log: FoldedLog) -> None:
        self._log = log
        self._from = 0
        self._told = 0

    def start(self, offset: int) -> None:
        """Count from now on."""
        self._from = self._told = self._log.rows[2]

    def tick(self) -> bool:
        """Whether there are more than at the last look."""
        before, self._told = self._told, self._log.rows[2]
        return self._told != before

    @property
    def lines(self) -> int:
        """How many have come."""
        return max(0, self._told - self._from)
