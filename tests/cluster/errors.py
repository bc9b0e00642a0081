"""What goes wrong with the cluster itself, and running the system's tools."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class ClusterError(Exception):
    """The cluster could not do what was asked; the message says which tool said what."""


def tool(argv: Sequence[str], *, text: str = "", timeout: float = 30.0) -> str:
    """Runs a system tool and returns what it printed.

    Args:
        argv: The command line.
        text: What the tool reads from its standard input.
        timeout: Seconds before the tool is killed.

    Raises:
        ClusterError: The tool is missing, failed, or took too long.
    """
    try:
        done = subprocess.run(
            list(argv), input=text, capture_output=True, text=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{' '.join(argv)}: {error}") from error
    if done.returncode:
        raise ClusterError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
