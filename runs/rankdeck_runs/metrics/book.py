"""A run's metrics: what the record's file holds, and what its logs say beyond that."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.files import load_profile
from rankdeck_profiles.metric_patterns import MetricPattern
from rankdeck_runs import layout
from rankdeck_runs.metrics import file
from rankdeck_runs.metrics.reader import LineReader, Point, whole_lines
from rankdeck_runs.metrics.series import Series, curve_length

CHUNK = 64 << 10
"""Bytes of one log that are read at once: screens wait for no more than that."""
MARKED = 1 << 20
"""After so many bytes without a metric the file is told how far its log was read."""
MOST_METRICS = 64
"""Names in one run; a program that makes up more is not measuring. The first ones stay."""


class MetricsBook:
    """The metrics of one run. Every method may be called from any thread.

    Args:
        path: the record's folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path / layout.METRICS
        self._updating = threading.Lock()
        self._lock = threading.Lock()
        self._reader: LineReader | None = None
        self._offset = 0
        self._read: dict[str, int] = {}
        self._marked: dict[str, int] = {}
        self._within: set[str] = set()
        self._silent: set[str] = set()
        self._writable = True
        self._limit = curve_length(1)
        self._series: dict[str, dict[int, Series]] = {}
        self._owners: dict[tuple[str, int], str] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """A number that grows with each new value."""
        return self._version

    @property
    def slow(self) -> tuple[str, ...]:
        """The profile's patterns that took too long for a line and are not used any more."""
        return tuple(self._reader.slow) if self._reader is not None else ()

    def names(self) -> list[str]:
        """The metrics there are, in the order in which they came up."""
        with self._lock:
            return list(self._series)

    def counts(self, name: str) -> list[int]:
        """How many values each rank has told of one metric."""
        with self._lock:
            return [series.count for series in self._series.get(name, {}).values()]

    def of(self, name: str) -> dict[int, Series]:
        """Rank -> its series of one metric, as it is now."""
        with self._lock:
            return {rank: _copy(series) for rank, series in sorted(self._series.get(name, {}).items())}

    def update(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        seconds: float,
        silent_seconds: float = math.inf,
        live: bool = False,
    ) -> bool:
        """Take in what others wrote into the file and what logs hold beyond it.

        Args:
            sizes: which logs to look at, by the agent's names (`3.out`), and their sizes; None: all.
            seconds: leave off after about so long.
            silent_seconds: how much of it may go to logs in whose last piece there was no metric.
            live: the lines are being written now: they are stamped with the time.

        Returns:
            Whether all of these logs has been read.
        """
        until = time.monotonic() + seconds
        with self._updating:
            if self._reader is None:
                self._reader = LineReader(_patterns(self._path))
            sizes = _sizes(self._path / layout.LOGS) if sizes is None else sizes
            self._limit = curve_length(len({name.partition(".")[0] for name in sizes}))
            self._absorb()
            behind = [name for name in sorted(sizes, key=self._turn) if self._is_behind(name, sizes[name])]
        # The lock is let go between pieces: the screen that shows metrics need not wait for who has time.
        silent, left_out = 0.0, False
        while behind:
            more = []
            for name in behind:
                began = time.monotonic()
                if began > until:
                    return False
                if name in self._silent and silent > silent_seconds:
                    left_out = True
                    continue
                with self._updating:
                    if self._advance(name, live):
                        more.append(name)
                if name in self._silent:
                    silent += time.monotonic() - began
            behind = more
        return not left_out

    def _turn(self, name: str) -> tuple[int, int, int, str]:
        """Attempts in their order; within one, the log of which the least was read."""
        rank, attempt, stream = _parts(name)
        return attempt, self._read.get(name, 0), rank, "0" if stream == "out" else "1"

    def _is_behind(self, name: str, size: int) -> bool:
        return size > self._read.get(name, 0)

    def _absorb(self) -> None:
        with contextlib.suppress(OSError):
            for behind, entry in file.entries(self._file, self._offset):
                self._offset = behind
                if entry is None:
                    continue
                name = layout.to_protocol(str(entry["log"]))
                assert name is not None  # `entries` gives none without
                point = file.point_of(entry)
                if point is not None:
                    self._take(name, [point])
                elif isinstance(entry.get("read"), int):
                    self._read[name] = max(self._read.get(name, 0), entry["read"])

    def _advance(self, name: str, live: bool) -> bool:
        """Read the next piece of a log; whether there may be more."""
        offset = self._read.get(name, 0)
        rank, attempt, stream = _parts(name)
        log = layout.rank_log(rank, stream, attempt)
        data = b""
        with contextlib.suppress(OSError), open(self._path / layout.LOGS / log, "rb", buffering=0) as opened:
            data = os.pread(opened.fileno(), CHUNK, offset)
        used = whole_lines(data)
        if used == 0:
            if len(data) < CHUNK:
                return False
            self._within.add(name)  # a line without an end: what follows of it is not looked at
            self._read[name] = offset + len(data)
            return True
        start = 0
        if name in self._within:
            self._within.discard(name)
            start = min(at + 1 for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0)
        assert self._reader is not None
        points = list(self._reader.points(data[start:used], offset + start))
        self._keep(log, name, rank, points, offset + used, live)
        self._take(name, points)
        self._read[name] = offset + used
        (self._silent.discard if points else self._silent.add)(name)
        return len(data) == CHUNK

    def _keep(self, log: str, name: str, rank: int, points: list[Point], read: int, live: bool) -> None:
        """Write points to the file; after a failure nothing more: a gap would look like logs without any."""
        now = time.time() if live else None
        lines = [file.point_line(log, rank, point, now) for point in points]
        if lines:
            self._marked[name] = read
        elif read - self._marked.get(name, 0) >= MARKED:
            self._marked[name] = read
            lines = [file.read_line(log, read)]
        if not lines or not self._writable:
            return
        try:
            before, after = file.append(self._file, lines)
        except OSError:  # a full disk, or somebody else's record: they are shown, and found again next time
            self._writable = False
            return
        if before == self._offset:
            self._offset = after

    def _take(self, name: str, points: Iterable[Point]) -> None:
        rank, _, stream = _parts(name)
        read = self._read.get(name, 0)
        with self._lock:
            for point in points:
                if point.at < read:
                    continue  # a double
                read = point.end
                for metric, value in point.values.items():
                    series = self._series_of(metric, rank, stream)
                    if series is not None:
                        series.add(value, point.step)
                self._version += 1
        self._read[name] = max(read, self._read.get(name, 0))

    def _series_of(self, metric: str, rank: int, stream: str) -> Series | None:
        """None: the metric is not kept, or the rank's other stream tells it, too."""
        ranks = self._series.get(metric)
        if ranks is None:
            if len(self._series) >= MOST_METRICS:
                return None
            ranks = self._series[metric] = {}
        if self._owners.setdefault((metric, rank), stream) != stream:
            return None
        series = ranks.get(rank)
        if series is None:
            series = ranks[rank] = Series(self._limit)
        return series


def _copy(series: Series) -> Series:
    return replace(series, xs=list(series.xs), ys=list(series.ys))


def _patterns(path: Path) -> list[MetricPattern]:
    """The profile's, as it was launched; none where it can't be read any more."""
    with contextlib.suppress(RankdeckError, OSError, ValueError):
        metrics = load_profile(path / layout.RUN_TOML).metrics
        return [MetricPattern.parse(name, pattern) for name, pattern in metrics.items()]
    return []


def _sizes(logs: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            if name := layout.to_protocol(entry.name):
                sizes[name] = entry.stat().st_size
    return sizes


def _parts(name: str) -> tuple[int, int, str]:
    """`3.2.out` -> rank, attempt, stream."""
    rank, *attempt, stream = name.split(".")
    return int(rank), int(attempt[0]) if attempt else 1, stream
