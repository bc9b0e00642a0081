"""`rankdeck logs --fold`: what ranks said, the same lines once, with who said them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rankdeck_runs.same_lines import Said, SameLines
from rankdeck_runs.sanitise import plain
from rankdeck_runs.timeline import TimedLine, TimedLog, merged
from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.merging import clock


def print_folded(
    logs: Sequence[TimedLog],
    ranks: tuple[int, ...],
    pattern: re.Pattern[str] | None,
    *,
    odd_only: bool,
    as_json: bool,
) -> None:
    """Prints each line, or traceback, once, in the order in which they first came.

    Args:
        logs: whose lines.
        ranks: the ranks that are looked at, also those without a log.
        pattern: only lines, and whole tracebacks, in which it is found.
        odd_only: leave out what all ranks said alike.
        as_json: one JSON document.
    """
    found = (said for said in _folded(logs, ranks, pattern) if not (odd_only and said.by_all))
    if as_json:
        output.print_json({"ranks": list(ranks), "said": [_as_json(said) for said in found]})
        return
    for said in found:
        _print(said)
    sys.stdout.flush()


def _folded(
    logs: Sequence[TimedLog], ranks: tuple[int, ...], pattern: re.Pattern[str] | None
) -> Iterator[Said]:
    same = SameLines(ranks)
    for block in _blocks(logs):
        lines = [plain(found.line.data) for found in block]
        if pattern is None or any(pattern.search(line) for line in lines):
            log = block[0].log
            yield from same.add(log.rank, log.stream, block[0].seconds, lines, log.node)
    yield from same


def _blocks(logs: Sequence[TimedLog]) -> Iterator[list[TimedLine]]:
    """Lines that belong together; blocks of several logs in the order of their ends."""
    begun: dict[TimedLog, list[TimedLine]] = {}
    for found in merged(logs):
        if found.joins:
            begun[found.log].append(found)
            continue
        if block := begun.pop(found.log, None):
            yield block
        if found.open:
            begun[found.log] = [found]
        else:
            yield [found]
    # Each log's last one; by time, as those before.
    yield from sorted(begun.values(), key=lambda block: block[0].seconds or float("inf"))


def _print(said: Said) -> None:
    count = f"{len(said.ranks)} of {len(said.world)}"
    who = count if len(said.ranks) == len(said.world) else f"{count}: {named(said.ranks)}"
    head = f"{clock(said.first)} {said.stream} {who}{repeated(said)}"
    lines = said.lines
    colour = output.GREY if said.by_all else output.YELLOW
    sys.stdout.write(output.paint(f"{head} |", colour, sys.stdout))
    if len(lines) == 1:
        sys.stdout.write(f" {lines[0]}\n")
    else:
        sys.stdout.write("".join(f"\n    {line}".rstrip(" ") for line in lines) + "\n")
    for odd in said.odd:
        told = f"    {len(odd.ranks)} of {len(said.ranks)}: {named(odd.ranks)}: {odd.text}"
        sys.stdout.write(output.paint(told, output.YELLOW, sys.stdout) + "\n")


def named(ranks: Sequence[int]) -> str:
    """`rank 17` or `ranks 0-16,18-63`."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {words.as_ranges(ranks)}"


def repeated(said: Said) -> str:
    """`, 60 times each`, `, 12 to 60 times each`; nothing where each said it once."""
    least, most = said.each
    if most == 1:
        return ""
    return f", {most} times each" if least == most else f", {least} to {most} times each"


def _as_json(said: Said) -> dict[str, Any]:
    return {
        "first": said.first,
        "last": said.last,
        "stream": said.stream,
        "ranks": list(said.ranks),
        "times": said.times,
        "lines": said.lines,
        "all_alike": said.by_all,
        "odd": [
            {
                "ranks": list(odd.ranks),
                "what": "times" if odd.times else "number",
                "said": odd.said,
                "most": odd.most,
            }
            for odd in said.odd
        ],
    }
