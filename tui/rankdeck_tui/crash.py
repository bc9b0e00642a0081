"""What happens when the app itself fails: the terminal is given back, a report is written and named.

And where log records and warnings go while the terminal belongs to the screens.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

LOG_BYTES: Final = 1_000_000
"""Size at which the log file is rotated; one older file is kept."""


@contextmanager
def quiet_terminal(folder: Path) -> Iterator[Path]:
    """Send log records, warnings and fatal tracebacks to a file while the body runs: never to the terminal.

    Args:
        folder: where `rankdeck.log` is kept; made if missing (0700).

    Yields:
        The log file's path. Where the folder can't be written (a full disk, no permission), records are lost.
    """
    path = folder / "rankdeck.log"
    handler = _file_handler(path)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    unraisable, sys.unraisablehook = sys.unraisablehook, _log_unraisable
    fatal = _open_fatal(folder)
    if fatal is not None:
        faulthandler.enable(fatal)
    try:
        yield path
    finally:
        if fatal is not None:
            faulthandler.disable()
            os.close(fatal)
        sys.unraisablehook = unraisable
        logging.captureWarnings(False)
        root.handlers[:] = before
        root.setLevel(level)
        handler.close()


def _log_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """An exception in a finalizer, of which Python would tell on stderr."""
    error = unraisable.exc_value
    logging.getLogger(__name__).error(
        "%s: %r", unraisable.err_msg or "ignored in", unraisable.object, exc_info=error
    )


def _file_handler(path: Path) -> logging.Handler:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler: logging.Handler = RotatingFileHandler(
            path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
        path.chmod(0o600)
    except OSError:
        return logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _open_fatal(folder: Path) -> int | None:
    try:
        return os.open(folder / "fatal.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return None


def write_report(error: BaseException, folder: Path, version: str) -> Path | None:
    """Write what is needed to find a fault: versions, terminal, traceback.

    Local variables are left out: they may hold secrets.

    Args:
        error: what went wrong.
        folder: where the report goes.
        version: rankdeck's version.

    Returns:
        The report's path; None where it could not be written.
    """
    moment = datetime.now(UTC)
    path = folder / f"crash-{moment:%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    lines = [
        f"rankdeck {version}, Python {platform.python_version()}, {platform.platform()}",
        f"time {moment.isoformat(timespec='seconds')}",
        *(f"{name}={os.environ.get(name, '')}" for name in ("TERM", "COLORTERM", "LANG", "LC_ALL", "TMUX")),
        "",
        "".join(traceback.format_exception(error)),
    ]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join(lines))
    except OSError:
        return None
    return path


def tell(error: BaseException, report: Path | None) -> None:
    """Say on stderr, after the terminal was given back, what happened and that runs go on."""
    where = f"A report was written to {report}" if report else "A report could not be written"
    sys.stderr.write(
        f"rankdeck: the screens failed: {type(error).__name__}: {error}\n"
        f"  {where}.\n"
        "  Your runs go on: start rankdeck again to watch them.\n"
    )
