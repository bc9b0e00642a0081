"""`rankdeck demo`: a real training on this machine, to see what rankdeck does."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rankdeck_profiles.paths import data_dir
from rankdeck_tui import words
from rankdeck_tui.cli import demonstration, output
from rankdeck_tui.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from rankdeck_tui.cli.follow import End, follow
from rankdeck_tui.cli.interrupts import Choice, Interrupts
from rankdeck_tui.cli.launching import launch
from rankdeck_tui.cli.screen import open_screen, require_terminal
from rankdeck_tui.cli.surroundings import engine, run_home
from rankdeck_tui.cli.views import ProgressView

if TYPE_CHECKING:
    from rankdeck_runs.record import Record
    from rankdeck_tui.cli.parser import CommandParser

DESCRIPTION = (
    "Trains a small model with PyTorch DDP on two nodes of this machine with two ranks each, every node "
    "with its own loopback address, supervisor and folder. Opens the screen on it; with --headless prints "
    "progress instead and checks that the training really happened (exit status 0 only then)."
)

WATCHED = ("--steps", "200", "--step-sleep", "0.2")
"""Long enough to look around in the screen: about a minute."""
CHECKED = ("--steps", "60", "--step-sleep", "0.02")
"""Long enough for the loss to go down clearly."""


def configure(parser: CommandParser) -> None:
    """Adds the arguments."""
    parser.add_argument("--headless", action="store_true", help="no screen: print progress, check the result")
    parser.add_argument("--python", metavar="PATH", help="the Python for the ranks; it must have torch")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="with --headless: keep the ranks' own copies of their output",
    )


def run(args: Namespace) -> int:
    """Runs the demo."""
    if not args.headless:
        require_terminal()
    python = demonstration.python_with_torch(args.python)
    workdir = Path(data_dir()) / "demo"
    workdir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return _headless(python, workdir, args.keep) if args.headless else _on_screen(python, workdir)


def _on_screen(python: str, workdir: Path) -> int:
    with engine() as running, Interrupts() as interrupts:
        run_id = launch(
            running, demonstration.profile(python, workdir, WATCHED), demonstration.pool(), interrupts
        )
    return open_screen(run_id)


def _headless(python: str, workdir: Path, keep: bool) -> int:
    copies = Path(tempfile.mkdtemp(prefix="rankdeck-demo-"))
    try:
        return _checked_run(python, workdir, copies)
    finally:
        if keep:
            output.say(f"the ranks' own copies of their output are in {copies}")
        else:
            shutil.rmtree(copies, ignore_errors=True)


def _checked_run(python: str, workdir: Path, copies: Path) -> int:
    began = time.monotonic()
    output.say(f"training with the torch of {python}; importing it takes some seconds on every rank")
    profile = demonstration.profile(python, workdir, (*CHECKED, "--own-copy", str(copies)))
    with engine() as running, Interrupts() as interrupts:
        run_id = launch(running, profile, demonstration.pool(), interrupts)
        record = run_home().find(run_id)
        view = ProgressView(record)
        end, snapshot = follow(running, run_id, view, interrupts, on_interrupt=lambda: Choice.STOP)
    if end is End.STOPPED:
        return EXIT_INTERRUPTED
    found = demonstration.problems(snapshot, record, copies)
    if found:
        _tell_failure(record, found)
        return EXIT_FAILED
    _tell_success(record, time.monotonic() - began)
    return EXIT_OK


def _tell_success(record: Record, seconds: float) -> None:
    first = demonstration.trainings(record)[0]
    nodes, each = len(demonstration.NODES), demonstration.PROCS_PER_NODE
    print(f"The demo trained for real, in {words.duration(seconds)}:")
    print(f"  {nodes} nodes x {each} ranks, world size {first.world_size} seen by every rank")
    print(f"  loss {first.first_loss:.4f} -> {first.last_loss:.4f}")
    print(f"  the same weights on every rank (checksum {first.checksum})")
    print("  every byte the ranks wrote is on record")
    ourselves = "rankdeck" if shutil.which("rankdeck") else sys.argv[0]
    print(f"Look at it again: {ourselves} show {record.id}")


def _tell_failure(record: Record, found: list[str]) -> None:
    output.error(f"the demo run {record.id} did not train as it must:\n" + "\n".join(found))
    cause = record.snapshot().cause
    if cause is not None:
        output.say(f"  cause: {cause.message}")
    for rank in range(demonstration.WORLD_SIZE):
        for stream in ("out", "err"):
            path = record.log(rank, stream).path
            tail = path.read_bytes()[-2000:].splitlines()[-8:] if path.exists() else []
            for line in tail:
                output.say(f"  [{rank} {stream}] {line.decode('utf-8', 'replace')}")
    output.say(f"  'rankdeck logs {record.id}' has all of it")
