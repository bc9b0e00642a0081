"""Small records of runs, written as the engine writes them: a plan, events, logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankdeck_runs import layout
from rankdeck_runs.record import Record
from rankdeck_runs.transport import Fabric

BEGIN = 1_795_000_000.0
"""Unix seconds at which the runs here begin: 2026-11-18 11:06:40 UTC."""


def write_run(
    home: Path,
    run_id: str,
    *,
    nodes: Sequence[str] = ("n1", "n2"),
    per_node: int = 2,
    profile: str = "resnet",
    framework: str = "pytorch",
    fabric: Fabric | None = None,
) -> Record:
    """A run that was recorded and whose start was asked for on every node; nothing has begun.

    `torchrun` has one launcher a node, any other framework one process a rank.
    """
    folder = home / "runs" / run_id
    (folder / layout.LOGS).mkdir(parents=True)
    plan_nodes = []
    for index, name in enumerate(nodes):
        ranks = list(range(index * per_node, (index + 1) * per_node))
        processes = [
            {"ranks": [rank], "local_ranks": [local], "argv": ["python3", "train.py"], "launcher_args": 0,
             "cwd": "/work", "env": {"RANK": str(rank)}, "fill": False}
            for local, rank in enumerate(ranks)
        ]  # fmt: skip
        if framework == "torchrun":
            local_ranks = list(range(per_node))
            launcher = {"ranks": ranks, "local_ranks": local_ranks,
                        "argv": ["torchrun", "train.py"], "launcher_args": 1,
                        "cwd": "/work", "env": {}, "fill": False}  # fmt: skip
            processes = [launcher]
        plan_nodes.append(
            {"node": name, "node_rank": index, "address": f"10.0.0.{index + 1}", "ranks": ranks,
             "processes": processes, "env_removed": [], "needs": []}
        )  # fmt: skip
    plan = {
        "framework": framework, "world_size": len(nodes) * per_node,
        "head": {"node": nodes[0], "address": "10.0.0.1", "port": 29500}, "nodes": plan_nodes,
        "reasons": {}, "warnings": [], "setup": [], "env_from": [], "assumed": [],
    }  # fmt: skip
    (folder / layout.PLAN).write_text(json.dumps(plan))
    (folder / layout.RUN_TOML).write_text(
        f'framework = "{framework}"\nscript = "train.py"\nworkdir = "/work"\n'
    )
    (folder / layout.POOL_TOML).write_text(f'backend = "ssh"\nnodes = {json.dumps(list(nodes))}\n')
    record = Record(folder)
    targets = [{"name": name, "host": name, "user": None, "port": None} for name in nodes]
    stop = {"signal": "TERM", "grace": 60.0, "on_rank_failure": "stop"}
    happen(
        record,
        [
            {"ev": "run_created", "t": BEGIN, "run": run_id, "profile": profile, "framework": framework,
             "pool": "h100", "backend": "ssh", "stop": stop, "nodes": targets,
             "fabric": fabric.to_json() if fabric else None},
            *({"ev": "start_asked", "t": BEGIN + 0.1, "node": name} for name in nodes),
        ],
    )  # fmt: skip
    return record


def happen(record: Record, events: Iterable[Mapping[str, Any]]) -> None:
    """Add events to a record."""
    with record.events_path.open("a") as file:
        for event in events:
            file.write(json.dumps(event) + "\n")


def started(record: Record, *, per_node: int = 2, seconds: float = 1.0) -> list[dict[str, Any]]:
    """The events of every rank's start, in order."""
    found: list[dict[str, Any]] = []
    for index, node in enumerate(record.plan()["nodes"]):
        name = node["node"]
        found.append(
            {
                "ev": "supervisor_started",
                "seq": 1,
                "node": name,
                "t": BEGIN + seconds,
                "pid": 100,
                "boot": "b",
            }
        )
        for local, rank in enumerate(node["ranks"]):
            found.append(
                {"ev": "rank_started", "seq": 2 + local, "node": name, "t": BEGIN + seconds, "rank": rank,
                 "local_rank": local, "pid": 1000 + index * 100 + local, "host": name}
            )  # fmt: skip
    return found


def ended(
    record: Record, codes: Mapping[int, int] | None = None, *, seconds: float = 61.0, first_seq: int = 4
) -> list[dict[str, Any]]:
    """The events of every rank's end; `codes` holds statuses other than 0."""
    codes = codes or {}
    found: list[dict[str, Any]] = []
    for node in record.plan()["nodes"]:
        seq, name = first_seq, node["node"]
        for rank in node["ranks"]:
            code = codes.get(rank, 0)
            found.append(
                {"ev": "rank_ended", "seq": seq, "node": name, "t": BEGIN + seconds, "rank": rank,
                 "exit_code": code, "signal": None, "out_bytes": 0, "err_bytes": 0, "asked": False}
            )  # fmt: skip
            seq += 1
        state = "failed" if any(codes.get(rank) for rank in node["ranks"]) else "succeeded"
        found.append({"ev": "node_ended", "seq": seq, "node": name, "t": BEGIN + seconds, "state": state})
    return [*found, {"ev": "complete", "t": BEGIN + seconds}]


def log(record: Record, rank: int, data: bytes, stream: str = "out") -> Path:
    """Add bytes to a rank's log."""
    path = record.log_path(layout.rank_log(rank, stream))
    with path.open("ab") as file:
        file.write(data)
    return path
