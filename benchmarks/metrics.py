"""What metrics cost: reading logs for them, keeping them, and drawing them.

- `no metric`: CPU of a look at lines that hold none, against Python's own split of the same bytes into lines
- `a metric`: CPU of a line that tells step, loss, lr and rate: found, written to metrics.jsonl, held
- `read again`: CPU of such a line from metrics.jsonl, which is what opening a run costs
- `picture`: CPU of the columns of one plot of 64 ranks with full curves (in a thread, at most once a second)
- memory: of 64 ranks x 10 metrics with full curves
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import measure

from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.metrics.series import Series
from rankdeck_tui.plots import columns

PLAIN = b"".join(
    b"[2026-11-28 12:00:%02d] worker %d: fetched shard %05d of the data set in %d ms\n"
    % (i % 60, i % 8, i, i % 97)
    for i in range(100_000)
)
TOLD = 10_000
METRICS = b"".join(
    b"epoch 0 step %d loss %.4f lr 1e-4 samples/s %.1f\n" % (i, 1 / (i + 1), 300 + i % 7) for i in range(TOLD)
)
RANKS, NAMES, DOTS = 64, 10, 216

PLAIN_LIMIT = 8.0
"""Times Python's split."""
LINE_LIMIT = 60.0
"""Microseconds of CPU a line with metrics."""
PICTURE_LIMIT = 0.1
"""Seconds."""
MEMORY_LIMIT = 40.0
"""MiB."""


def book_of(folder: Path, data: bytes) -> Path:
    """A record with one rank's log."""
    run = Path(tempfile.mkdtemp(dir=folder))
    (run / "logs").mkdir()
    (run / "logs" / "rank-00000.out").write_bytes(data)
    return run


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def read(run: Path) -> None:
    """All metrics of a record, by a reader that knows nothing yet."""
    if not MetricsBook(run).update(seconds=600):
        raise SystemExit("the logs were not read to their end")


def fresh(folder: Path, data: bytes) -> float:
    """CPU seconds for a log that was not read before."""
    run = book_of(folder, data)
    return cpu(lambda: read(run))


def full_curves() -> dict[int, Series]:
    """One metric of every rank."""
    found = {}
    for rank in range(RANKS):
        found[rank] = Series()
        for step in range(512):
            found[rank].add(rank + step * 0.5, step)
    return found


def memory() -> float:
    """MiB of all ranks' curves of all metrics."""
    tracemalloc.start()
    kept = [full_curves() for _ in range(NAMES)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return held / (1 << 20)


def main() -> int:
    """Prints the figures; 1 if a goal was missed."""
    options = measure.arguments(__doc__, rounds=15, quick=3)
    report = measure.Report("Metrics of logs, CPU time", ("", "median", "most"))
    curves = full_curves()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        again = book_of(folder, METRICS)
        read(again)
        variants: dict[str, Callable[[], object]] = {
            "Python's split, ns/line": lambda: cpu(lambda: [len(line) for line in PLAIN.split(b"\n")]),
            "no metric, ns/line": lambda: fresh(folder, PLAIN),
            "a metric, us/line": lambda: fresh(folder, METRICS),
            "read again, us/line": lambda: cpu(lambda: read(again)),
            "picture, ms": lambda: cpu(lambda: columns.of(curves, DOTS, 3)),
        }
        found = measure.interleave(options.rounds, variants)
    plain = PLAIN.count(b"\n")
    scales = dict(zip(found, (1e9 / plain, 1e9 / plain, 1e6 / TOLD, 1e6 / TOLD, 1e3), strict=True))
    for what, times in found.items():
        scaled = [scales[what] * each for each in times]
        report.rows.append((what, f"{statistics.median(scaled):.1f}", f"{max(scaled):.1f}"))
        report.figures[what] = scaled
    held = memory()
    report.rows.append((f"memory of {RANKS} ranks x {NAMES} metrics, MiB", f"{held:.1f}", ""))
    split, none, told, _, picture = found.values()
    report.bars.append(
        measure.Bar("no metric / Python's split", measure.pair_ratio(none, split), PLAIN_LIMIT)
    )
    report.bars.append(measure.Bar("us a line", statistics.median(told) * 1e6 / TOLD, LINE_LIMIT))
    report.bars.append(measure.Bar("seconds a picture", statistics.median(picture), PICTURE_LIMIT))
    report.bars.append(measure.Bar("MiB", held, MEMORY_LIMIT))
    return report.finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
