"""Prints ranks' output as lines, each with the rank and node it is from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankdeck_runs.rank_logs import timed_logs
from rankdeck_runs.sanitise import clean
from rankdeck_runs.states import RunSnapshot
from rankdeck_tui.cli import output
from rankdeck_tui.cli.ansi import coloured
from rankdeck_tui.cli.tail import Tail

_RANK_COLOURS = ("36", "32", "33", "35", "34", "96", "92", "93", "95", "94")
"""Cycled through by rank. Without red: that is for errors."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """One log file of a run's record."""

    label: str
    """The rank's number, or `launcher`."""
    node: str
    stream: str
    """`out` or `err`."""
    path: Path
    colour: str


def rank_sources(
    logs: Path,
    snapshot: RunSnapshot,
    ranks: Iterable[int],
    streams: Iterable[str],
    attempt: int | None = None,
) -> list[LogSource]:
    """The log files of some ranks, by rank, then stream.

    Args:
        logs: the record's `logs` folder.
        snapshot: says which node each rank is on. One that no node is known of has written nothing.
        ranks: the ranks wanted.
        streams: of `out` and `err`.
        attempt: of a launcher that starts its ranks again; None: each rank's newest.
    """
    return [
        LogSource(str(log.rank), node_of(log.node, log.attempt), log.stream, log.log, colour_of(log.rank))
        for log in timed_logs(logs, snapshot, ranks, streams, {}, attempt)
    ]


def colour_of(rank: int) -> str:
    """The colour (SGR) that a rank's lines begin with."""
    return _RANK_COLOURS[rank % len(_RANK_COLOURS)]


def node_of(node: str, attempt: int) -> str:
    """What is said of where a rank ran, and in which attempt if there were several."""
    return node if attempt < 2 else f"{node}, attempt {attempt}"


def launcher_sources(logs: Path, snapshot: RunSnapshot, streams: Iterable[str]) -> list[LogSource]:
    """The log files of the launchers (torchrun's own messages), by node."""
    wanted = tuple(streams)
    return [
        LogSource("launcher", launcher.node, stream, logs / name, output.GREY)
        for launcher in snapshot.launchers
        for stream, name in (("out", launcher.out_log), ("err", launcher.err_log))
        if name and stream in wanted
    ]


class LinePrinter:
    """Prints what has been added to a run's logs since the last look.

    A line is printed when it is complete, so that ranks never break into each other's lines. What ranks wrote
    can't drive the terminal; their colours stay where stdout is one.
    """

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self._pattern = pattern
        self._tails: dict[Path, tuple[LogSource, Tail]] = {}
        self._colours = output.colourful(sys.stdout)

    def add(self, sources: Iterable[LogSource]) -> None:
        """Watches these files too; those watched already are left alone."""
        for source in sources:
            self._tails.setdefault(source.path, (source, Tail(source.path)))

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, of all files together."""
        return sum(tail.offset for _, tail in self._tails.values())

    def print_new(self) -> None:
        """Prints the complete lines that are new."""
        for source, tail in self._tails.values():
            self._print(source, tail.lines())
        sys.stdout.flush()

    def print_rest(self) -> None:
        """Prints what is left, incomplete last lines too: call it once nothing more will be written."""
        for source, tail in self._tails.values():
            self._print(source, tail.lines())
            self._print(source, tail.last_line())
        sys.stdout.flush()

    def _print(self, source: LogSource, lines: Iterator[bytes]) -> None:
        prefix = f"[{source.label} {output.printable(source.node)}]"
        if self._colours:
            prefix = output.paint(prefix, source.colour, sys.stdout)
        for raw in lines:
            line = clean(raw)
            if self._pattern is None or self._pattern.search(line.text):
                sys.stdout.write(f"{prefix} {coloured(line) if self._colours else line.text}\n")
