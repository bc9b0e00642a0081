"""All runs of a user: one folder each below `$RANKDECK_HOME/runs`.

Light to import, like `summary.py`: what opens a whole record is imported when one is opened.
"""

from __future__ import annotations

import builtins
import os
import time

from rankdeck_profiles.errors import RankdeckError
from rankdeck_runs.summary import RunSummary, read_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdeck_runs.record import Record

SHOWN_CANDIDATES = 10
REMOVED = ".removed-"
"""How the name of a record that is being removed begins."""
_SUFFIX_LETTERS = "23456789abcdefghjkmnpqrstvwxyz"
"""Nothing that is easily read as something else."""
_LONGEST_SLUG = 32


class RunNotFoundError(RankdeckError):
    """No run has that name, or more than one has."""


class RunHome:
    """The records of all runs.

    Args:
        path: the folder that holds `runs/` (`rankdeck_profiles.paths.data_dir()`); made when the first run
            is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.abspath(path)
        self.runs: str = os.path.join(self.path, "runs")
        """The folder that holds one folder for each run."""

    def list(self, *, active_tests: bool = False) -> builtins.list[RunSummary]:
        """The user's runs, newest first.

        A run that nobody follows shows the state it was last known in (`RunSummary.updated` tells when).

        Args:
            active_tests: those in which preflight had a pair of nodes send, too.
        """
        found = [self._summary(run_id) for run_id in self._ids()]
        found = [summary for summary in found if active_tests or not summary.active_test]
        return sorted(found, key=lambda summary: (summary.created or "", summary.id), reverse=True)

    def find(self, name: str) -> Record:
        """The record that a person means.

        Args:
            name: a run's id, a beginning of one that no other run shares, or `last` for the newest of the
                user's own.

        Raises:
            RunNotFoundError: there is none, or several begin so; the message lists them.
        """
        from rankdeck_runs.record import Record

        run_id = self._resolve(name)
        return Record(os.path.join(self.runs, run_id))

    def new_id(self, profile: str) -> str:
        """An id for a run that begins now: `20261128-141502-resnet-x4f2`, in UTC so that ids sort."""
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in profile.lower()).strip("-")
        suffix = "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in os.urandom(4))
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        return f"{stamp}-{slug[:_LONGEST_SLUG].strip('-') or 'run'}-{suffix}"

    def _resolve(self, name: str) -> str:
        if name == "last":
            runs = self.list()
            if not runs:
                raise RunNotFoundError(
                    f"there is no run yet in {self.runs}", "start one with `rankdeck run PROFILE`"
                )
            return runs[0].id
        ids = self._ids()
        if name in ids:
            return name
        matching = sorted((run_id for run_id in ids if name and run_id.startswith(name)), reverse=True)
        if len(matching) == 1:
            return matching[0]
        if not matching:
            raise RunNotFoundError(
                f"no run is named {name!r} in {self.runs}",
                "`rankdeck runs` lists them; a beginning of an id that is its alone, or `last`, will do",
            )
        shown = "\n    ".join(matching[:SHOWN_CANDIDATES])
        more = len(matching) - SHOWN_CANDIDATES
        rest = f"\n    ... and {more} more" if more > 0 else ""
        raise RunNotFoundError(
            f"{len(matching)} runs begin with {name!r}:\n    {shown}{rest}", "type more of the id"
        )

    def _ids(self) -> builtins.list[str]:
        try:
            with os.scandir(self.runs) as entries:
                return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        except FileNotFoundError:
            return []

    def _summary(self, run_id: str) -> RunSummary:
        folder = os.path.join(self.runs, run_id)
        summary = read_summary(folder, run_id)
        if summary is not None:
            return summary
        from rankdeck_runs.record import Record

        return Record(folder).refresh_summary()
