"""Which code a run ran: the commit and the uncommitted changes of the repository that its program is in."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from rankdeck_runs import layout
from rankdeck_runs.record import Record

GIT_SECONDS = 5.0
"""How long git may take in all. Leaving rankdeck waits for it; the start of a run does not."""
LARGEST = 16 << 20
"""Bytes kept of each answer: a diff of generated files can be of any size."""

_QUESTIONS = {
    "commit": ("rev-parse", "HEAD"),
    "status": ("status", "--porcelain=v1", "--untracked-files=normal"),
    "diff.patch": ("diff", "--no-ext-diff", "--no-textconv", "HEAD"),
}


def capture_code(record: Record, workdir: str) -> None:
    """Write `code/`: files `commit`, `status` and `diff.patch`. Blocks for up to `GIT_SECONDS`.

    No repository there on this machine, no git or no time left: what is missing stays out.

    Args:
        record: the run's record.
        workdir: the program's working directory; `~` is taken for the home here.
    """
    folder = record.path / layout.CODE
    deadline = time.monotonic() + GIT_SECONDS
    try:
        folder.mkdir(0o700)
        for name, question in _QUESTIONS.items():
            if not _ask(os.path.expanduser(workdir), question, folder / name, deadline) and name == "commit":
                shutil.rmtree(folder)
                return
    except OSError:
        return


def _ask(workdir: str, question: tuple[str, ...], answer: Path, deadline: float) -> bool:
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    # Optional locks and the file system monitor would write to, or start something in, the user's repository.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-c", "core.fsmonitor=false", "-C", workdir, *question]
    handle = os.open(answer, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "r+b") as file:
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
                timeout=left,
                check=False,
            )
            good = done.returncode == 0
        except (OSError, subprocess.SubprocessError, ValueError):
            good = False
        size = os.fstat(handle).st_size
        if size > LARGEST:
            file.truncate(LARGEST)
    if not good or not size:
        answer.unlink()
    return good
