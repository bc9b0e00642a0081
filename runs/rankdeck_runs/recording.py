"""A new run's record: everything that is known before the start, written down before anything is started."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankdeck_profiles import edit
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile
from rankdeck_profiles.nodes import entries_of
from rankdeck_runs import events, layout
from rankdeck_runs.home import RunHome
from rankdeck_runs.preparing import Prepared
from rankdeck_runs.record import Record
from rankdeck_runs.values import text

_IDS_TRIED = 20


class RecordError(RankdeckError):
    """A run's record can't be written."""


def create(home: RunHome, prepared: Prepared) -> Record:
    """Make the folder of a new run, with all but its code.

    Raises:
        RecordError: the folder can't be written.
    """
    profile, pool = original_names(prepared.profile, prepared.pool)
    try:
        record = _make_folder(home, profile)
        _write_launch(record, prepared)
        events.append(record.events_path, _created(record.id, profile, pool, prepared))
    except OSError as error:
        raise RecordError(
            f"the run can't be recorded in {home.runs}: {error.strerror}",
            "free some space, or set RANKDECK_HOME to another folder",
        ) from None
    record.refresh_summary()
    return record


def original_names(profile: Profile, pool: Pool) -> tuple[str, str]:
    """Names of profile and pool: a run repeated from a record goes by those of the first, not by `run`."""
    return (
        _original(profile.source, layout.RUN_TOML, "profile") or profile.name,
        _original(pool.source, layout.POOL_TOML, "pool") or pool.name,
    )


def _original(source: Path | None, name: str, key: str) -> str:
    if source is None or source.name != name or not (source.parent / layout.EVENTS).exists():
        return ""
    return text(Record(source.parent).created_event(), key)


def _make_folder(home: RunHome, profile: str) -> Record:
    os.makedirs(os.path.dirname(home.path), exist_ok=True)
    for folder in (home.path, home.runs):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    for _ in range(_IDS_TRIED):
        path = os.path.join(home.runs, home.new_id(profile))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        os.mkdir(os.path.join(path, layout.LOGS), 0o700)
        return Record(path)
    raise RecordError(f"no free run id was found in {home.runs}")


def _write_launch(record: Record, prepared: Prepared) -> None:
    pool_path = record.path / layout.POOL_TOML
    profile = replace(prepared.profile, pool=str(pool_path))
    write(pool_path, edit.render(_pool_values(prepared.pool)))
    write(record.profile_path, edit.profile_toml(profile).encode())
    _write_json(record.path / layout.PLAN, prepared.plan.to_json())
    _write_json(record.path / layout.FACTS, {name: facts.to_json() for name, facts in prepared.facts.items()})
    found = [{"node": node, "message": message} for node, message in prepared.problems]
    findings = {
        "overruled": found,
        "warnings": list(prepared.plan.warnings),
        "preflight": prepared.report.to_json() if prepared.report is not None else None,
    }
    _write_json(record.path / layout.FINDINGS, findings)


def _created(run_id: str, profile: str, pool: str, prepared: Prepared) -> Mapping[str, Any]:
    used = {node.node for node in prepared.plan.nodes}
    stop = prepared.plan.stop
    return events.make(
        "run_created",
        run=run_id,
        profile=profile,
        framework=prepared.plan.framework,
        pool=pool,
        backend=str(prepared.pool.backend),
        stop={"signal": stop.signal, "grace": stop.grace, "on_rank_failure": str(stop.on_rank_failure)},
        nodes=[
            {
                "name": node.name,
                "host": node.host,
                "user": node.user,
                "port": node.port,
                "hostname": _hostname(prepared, node.name),
            }
            for node in prepared.pool.nodes
            if node.name in used
        ],
        active_test=prepared.active_test,
        fabric=prepared.fabric.to_json() if prepared.fabric is not None else None,
    )


def _hostname(prepared: Prepared, node: str) -> str:
    """What the machine behind a node calls itself; empty: not told."""
    facts = prepared.facts.get(node)
    return facts.hostname if facts is not None else ""


def _pool_values(pool: Pool) -> dict[str, Any]:
    values: dict[str, Any] = {"backend": str(pool.backend), "nodes": entries_of(pool.nodes)}
    if pool.slots is not None:
        values["slots"] = pool.slots
    if pool.interface is not None:
        values["interface"] = pool.interface
    return values


def write(path: Path, data: bytes) -> None:
    """Write a new file for this user alone. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(data)


def _write_json(path: Path, value: object) -> None:
    write(path, json.dumps(value, indent=1).encode() + b"\n")
