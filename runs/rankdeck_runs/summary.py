"""What the list of runs says of one run. Light to import: `rankdeck runs` must start at once.

So no dataclasses, enums or pathlib here: on the same machine they cost more than reading hundreds of
summaries.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_TEXTS = ("id", "state", "profile", "framework", "pool", "backend", "cause", "logs", "lacks")
_TIMES = ("created", "started", "ended")


class RunSummary:
    """One run in the list.

    A summary is written whenever the run's state changes while a rankdeck follows it. If none does, it says
    what was last known, `updated` says when that was, and `Engine.sync` brings it up to date.

    Attributes:
        id: the run's id.
        state: a `RunState` as text; `unknown` for a record that can't be read.
        profile: the profile's name; likewise framework, pool and backend.
        cause: the first failure in one line, or None.
        created: ISO 8601 in UTC, or None; likewise started and ended.
        world_size: number of ranks.
        nodes: number of nodes.
        active_test: it is preflight's own, in which a pair of nodes sends.
        complete: nothing more is to be fetched.
        updated: unix seconds of the last look at the run, 0 if unknown.
        disk_bytes: size of the record at that look; None: written before that was noted.
        logs: a `CopyState` as text: where the logs are; empty: not noted.
        lacks: which bytes are not in the record and why, in words; None: none.
    """

    __slots__ = (
        *_TEXTS,
        *_TIMES,
        "active_test",
        "complete",
        "disk_bytes",
        "nodes",
        "updated",
        "world_size",
    )

    def __init__(self, run_id: str, values: Mapping[str, Any]) -> None:
        self.id = run_id
        self.state: str = _text(values, "state") or "unknown"
        self.profile: str = _text(values, "profile") or ""
        self.framework: str = _text(values, "framework") or ""
        self.pool: str = _text(values, "pool") or ""
        self.backend: str = _text(values, "backend") or ""
        self.cause: str | None = _text(values, "cause")
        self.created: str | None = _text(values, "created")
        self.started: str | None = _text(values, "started")
        self.ended: str | None = _text(values, "ended")
        self.world_size: int = _count(values, "world_size")
        self.nodes: int = _count(values, "nodes")
        self.active_test: bool = values.get("active_test") is True
        self.complete: bool = values.get("complete") is True
        updated = values.get("updated")
        self.updated: float = updated if isinstance(updated, int | float) else 0.0
        disk = values.get("disk_bytes")
        self.disk_bytes: int | None = disk if isinstance(disk, int) and disk >= 0 else None
        self.logs: str = _text(values, "logs") or ""
        self.lacks: str | None = _text(values, "lacks")

    def to_json(self) -> dict[str, Any]:
        """The run's entry in `rankdeck runs --json`, and what summary.json holds."""
        return {
            "id": self.id,
            "state": self.state,
            "profile": self.profile,
            "framework": self.framework,
            "pool": self.pool,
            "backend": self.backend,
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
            "world_size": self.world_size,
            "nodes": self.nodes,
            "active_test": self.active_test,
            "cause": self.cause,
            "complete": self.complete,
            "updated": self.updated,
            "disk_bytes": self.disk_bytes,
            "logs": self.logs,
            "lacks": self.lacks,
        }


def read_summary(folder: str, run_id: str) -> RunSummary | None:
    """The summary in a run's folder; None if there is none, or it is damaged."""
    try:
        with open(os.path.join(folder, "summary.json"), "rb") as file:
            values = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    return RunSummary(run_id, values) if isinstance(values, dict) else None


def write_summary(folder: str, summary: RunSummary) -> None:
    """Replace the summary in a run's folder in one step.

    Raises:
        OSError: the folder can't be written.
    """
    final = os.path.join(folder, "summary.json")
    draft = f"{final}.{os.getpid()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(summary.to_json(), file)
        os.replace(draft, final)
    except OSError:
        os.unlink(draft)
        raise


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


def _count(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    return value if isinstance(value, int) and value > 0 else 0
