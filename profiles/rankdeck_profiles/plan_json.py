"""A launch plan as JSON, and back.

Fields added since the first recorded plans have defaults, so that old records stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankdeck_profiles.model import BARRIER_TIMEOUT, OnRankFailure, StopPolicy
from rankdeck_profiles.plan import (
    EndsWith,
    FoundVariable,
    Head,
    LaunchPlan,
    Need,
    NodePlan,
    Process,
    ProcessKind,
    RankSource,
)
from rankdeck_profiles.rank_view import also_set, given_to_ranks


def to_json(plan: LaunchPlan) -> dict[str, Any]:
    """The whole plan as JSON values."""
    return {
        "framework": plan.framework,
        "world_size": plan.world_size,
        "head": {"node": plan.head.node, "address": plan.head.address, "port": plan.head.port},
        "nodes": [_node_json(plan, node) for node in plan.nodes],
        "reasons": dict(plan.reasons),
        "warnings": list(plan.warnings),
        "setup": list(plan.setup),
        "env_from": list(plan.env_from),
        "assumed": list(plan.assumed),
        "stop": {
            "signal": plan.stop.signal,
            "grace": plan.stop.grace,
            "on_rank_failure": plan.stop.on_rank_failure.value,
        },
        "barrier_timeout": plan.barrier_timeout,
    }


def from_json(data: Mapping[str, Any]) -> LaunchPlan:
    """The plan that `to_json` wrote. Raises KeyError: a field is missing."""
    head, stop = data["head"], data["stop"]
    return LaunchPlan(
        framework=data["framework"],
        world_size=data["world_size"],
        head=Head(head["node"], head["address"], head["port"]),
        nodes=tuple(_node(node) for node in data["nodes"]),
        reasons=dict(data["reasons"]),
        warnings=tuple(data["warnings"]),
        setup=tuple(data["setup"]),
        env_from=tuple(data["env_from"]),
        assumed=tuple(data["assumed"]),
        stop=StopPolicy(stop["signal"], stop["grace"], OnRankFailure(stop["on_rank_failure"])),
        barrier_timeout=data.get("barrier_timeout", BARRIER_TIMEOUT),
    )


def process_json(process: Process) -> dict[str, Any]:
    """What both the recorded plan and a node's own plan say of a process, beside its words."""
    source, ends = process.rank_from, process.ends_with
    return {
        "ranks": list(process.ranks),
        "local_ranks": list(process.local_ranks),
        "cwd": process.cwd,
        "env": dict(process.env),
        "fill": process.fill,
        "kind": process.kind.value,
        "rank_from": None
        if source is None
        else {
            "rank": source.rank,
            "local_rank": source.local_rank,
            "world_size": source.world_size,
            "keep": list(source.keep),
        },
        "fixed_ranks": process.fixed_ranks,
        "restarts": process.restarts,
        "ends_with": None if ends is None else {"ranks": list(ends.ranks)},
        "files": dict(process.files),
    }


def _node_json(plan: LaunchPlan, node: NodePlan) -> dict[str, Any]:
    return {
        "node": node.node,
        "node_rank": node.node_rank,
        "address": node.address,
        "ranks": list(node.ranks),
        "local_ranks": list(node.local_ranks),
        "cwd": node.cwd,
        "processes": [
            {
                "argv": list(process.argv),
                "launcher_args": len(process.launcher),
                **process_json(process),
                "macros": process.macros,
                "inside": process.inside,
                "role": process.role,
                # What the plan's readers want to know; it follows from the rest, so `from_json` needs it not.
                "given": [
                    {"name": one.name, "values": list(one.values), "why": one.why}
                    for one in given_to_ranks(plan, node, process)
                ],
                "also": list(also_set(plan, process)),
            }
            for process in node.processes
        ],
        "rank_env": dict(node.rank_env),
        "env_removed": [{"name": v.name, "value": v.value, "why": v.why} for v in node.env_removed],
        "env_kept": [{"name": v.name, "value": v.value, "why": v.why} for v in node.env_kept],
        "needs": [{"kind": n.kind, "value": n.value, "by": n.by, "why": n.why} for n in node.needs],
        "reasons": dict(node.reasons),
    }


def _node(data: Mapping[str, Any]) -> NodePlan:
    processes = tuple(_process(process) for process in data["processes"])
    return NodePlan(
        node=data["node"],
        node_rank=data["node_rank"],
        address=data["address"],
        ranks=tuple(data["ranks"]),
        processes=processes,
        env_removed=tuple(FoundVariable(v["name"], v["value"], v["why"]) for v in data["env_removed"]),
        env_kept=tuple(FoundVariable(v["name"], v["value"], v["why"]) for v in data.get("env_kept", ())),
        needs=tuple(Need(n["kind"], n["value"], n["by"], n["why"]) for n in data["needs"]),
        rank_env=dict(data.get("rank_env", {})),
        cwd=data.get("cwd", processes[0].cwd if processes else ""),
        reasons=dict(data.get("reasons", {})),
    )


def _process(data: Mapping[str, Any]) -> Process:
    argv = tuple(data["argv"])
    split = data["launcher_args"]
    source, ends = data.get("rank_from"), data.get("ends_with")
    kind = data.get("kind", "launcher" if split else "rank")
    return Process(
        ranks=tuple(data["ranks"]),
        local_ranks=tuple(data["local_ranks"]),
        launcher=argv[:split],
        program=argv[split:],
        cwd=data["cwd"],
        env=dict(data["env"]),
        fill=data["fill"],
        kind=ProcessKind(kind),
        rank_from=None
        if source is None
        else RankSource(source["rank"], source["local_rank"], source["world_size"], tuple(source["keep"])),
        macros=data.get("macros", bool(split)),
        fixed_ranks=data.get("fixed_ranks", True),
        restarts=data.get("restarts", 0),
        ends_with=None if ends is None else EndsWith(tuple(ends["ranks"])),
        inside=data.get("inside", 0),
        role=data.get("role", ""),
        files=dict(data.get("files", {})),
    )
