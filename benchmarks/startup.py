"""How fast rankdeck starts, beside the least that could be there.

The first painted frame of `rankdeck` on a pseudo-terminal against that of a minimal Textual app, and
`rankdeck runs` on an empty record against `python -c pass`. Ratios are taken round by round.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import measure

FRAME_LIMIT = 1.1
"""The screen may cost a tenth more than the least that Textual can do."""
RUNS_LIMIT = 4.0
"""argparse alone costs 1.5 to 2.5 times an empty Python."""

MINIMAL_APP = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("READY")
Minimal().run()
"""

TIMEOUT = 60.0
"""Seconds after which a start counts as hung."""


def first_content(command: list[str], needle: bytes, environment: dict[str, str]) -> float:
    """Seconds from the start of a command on a 120x40 terminal until it has drawn `needle`."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    try:
        while needle not in seen:
            left = TIMEOUT - (time.perf_counter() - began)
            if left <= 0 or not select.select([terminal], [], [], left)[0]:
                raise SystemExit(
                    f"{command[0]} did not draw {needle!r} in {TIMEOUT:g} s, only {seen[-800:]!r}"
                )
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:  # EIO: the program has ended
                raise SystemExit(f"{command[0]} ended without drawing {needle!r}: {seen[-800:]!r}") from None
        return time.perf_counter() - began
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def whole(command: list[str], environment: dict[str, str]) -> float:
    """Seconds that a command takes from start to end."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=TIMEOUT)
    return time.perf_counter() - began


def compare(
    report: measure.Report,
    rounds: int,
    ours: tuple[str, Callable[[], float]],
    theirs: tuple[str, Callable[[], float]],
    limit: float,
) -> None:
    """Measures both and adds their rows and the bar of their ratio."""
    for _, run in (ours, theirs):
        run()  # the first start reads everything from disk
    found = measure.interleave(rounds, dict((ours, theirs)))
    for name, seconds in found.items():
        milliseconds = [1000 * each for each in seconds]
        report.rows.append((name, f"{statistics.median(milliseconds):.0f}", f"{min(milliseconds):.0f}"))
        report.figures[name] = milliseconds
    ratio = measure.pair_ratio(found[ours[0]], found[theirs[0]])
    report.bars.append(measure.Bar(f"{ours[0]} / {theirs[0]}", ratio, limit))


def main() -> int:
    options = measure.arguments(__doc__, rounds=31, quick=7)
    python = sys.executable
    rankdeck = str(Path(python).with_name("rankdeck"))
    report = measure.Report("Start-up, wall time in ms", ("", "median", "least"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "RANKDECK_HOME": f"{folder}/home",
            "RANKDECK_CONFIG": f"{folder}/config",
        }
        compare(
            report,
            options.rounds,
            ("first frame of rankdeck", lambda: first_content([rankdeck], b"rankdeck", environment)),
            (
                "first frame of a minimal Textual app",
                lambda: first_content([python, "-c", MINIMAL_APP], b"READY", environment),
            ),
            FRAME_LIMIT,
        )
        compare(
            report,
            2 * options.rounds,
            ("rankdeck runs", lambda: whole([rankdeck, "runs"], environment)),
            ("python -c pass", lambda: whole([python, "-c", "pass"], environment)),
            RUNS_LIMIT,
        )
    return report.finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
