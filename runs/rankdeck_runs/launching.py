"""Starting a prepared run: recorded first, then started on every node, or nowhere.

The head node comes first: its supervisor chooses the port at which those of the others link themselves to it.
Ranks begin once all of them are ready (docs/agent-protocol.md, *Links*).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from rankdeck_backends.base import NodeError
from rankdeck_backends.connection import AgentConnection
from rankdeck_profiles import plan_json
from rankdeck_profiles.errors import ProfileError, RankdeckError
from rankdeck_profiles.plan import LaunchPlan, NodePlan, ProcessKind
from rankdeck_runs import events, recording
from rankdeck_runs.calling_off import unless_called_off
from rankdeck_runs.code_state import capture_code
from rankdeck_runs.errors import (
    NODE_NOT_REACHED,
    CalledOffError,
    LaunchError,
    hints_of,
    not_reached,
    problems_of,
    without_node,
)
from rankdeck_runs.gathering import from_all
from rankdeck_runs.home import RunHome
from rankdeck_runs.links import Links
from rankdeck_runs.preparing import Prepared
from rankdeck_runs.record import Record
from rankdeck_runs.stopping import StopResult, stop_nodes
from rankdeck_runs.targets import read_targets
from rankdeck_runs.values import integer, text

START_TIMEOUT = 90.0
"""Seconds for a node to lay out the run's folder and bring its supervisor up; the node itself gives up
after 60."""
JOIN_LIMIT = 180.0
"""Seconds for the ranks of a node to be started by the mpirun on the head node, once all nodes are ready: the
ssh of mpirun to all nodes, and a shim from a slow file system on each."""
LOST_AFTER = 60.0
"""Seconds without a word from a node after which the others' ranks are stopped. A switch that restarts, or a
supervisor that was killed and is started again, takes less."""
TOKEN = ".shared"

Progress = Callable[[str], None]


async def launch(
    home: RunHome, links: Links, prepared: Prepared, progress: Progress, called_off: asyncio.Event
) -> Record:
    """Start a run. See `Engine.launch`."""
    secret_values = _secrets(prepared.plan.env_from)
    record = await asyncio.to_thread(recording.create, home, prepared)
    progress(f"recorded as {record.id}")
    # Beside the start, which it must not hold up: a repository may be large, or on a slow file system.
    asyncio.get_running_loop().run_in_executor(None, capture_code, record, prepared.profile.workdir)
    try:
        await _start_all(links, prepared, record, secret_values, progress, called_off)
    finally:
        record.refresh_summary()
    return record


async def _start_all(
    links: Links,
    prepared: Prepared,
    record: Record,
    secret_values: Mapping[str, str],
    progress: Progress,
    called_off: asyncio.Event,
) -> None:
    by_name = {node.name: node for node in prepared.pool.nodes}
    token = secrets.token_hex(16)
    token_path = record.path / TOKEN
    _write_token(token_path, token)

    secret = secrets.token_hex(32)
    ports: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    head = prepared.plan.nodes[0]
    asked: set[str] = set()

    async def start(planned: NodePlan) -> None:
        node = by_name[planned.node]
        async with links.use(prepared.pool.backend, node) as connection:
            shared = await _is_shared(connection, token_path, token)
            found = prepared.facts.get(planned.node)
            gpus = len(found.gpus) if found is not None else 0
            link: dict[str, Any] = {"secret": secret, "address": prepared.plan.head.address, "port": None}
            if planned is not head:
                link["port"] = await asyncio.shield(ports)
                if link["port"] is None:
                    return  # the head was not started: so is nobody
            asked.add(planned.node)
            reply = await _start(
                connection, prepared.plan, planned, record, shared, gpus, secret_values, link
            )
        if planned is head:
            ports.set_result(integer(reply, "port") or 0)
        progress(f"{planned.node} started")

    async def start_or_not(planned: NodePlan) -> None:
        await unless_called_off(start(planned), called_off, lambda: planned.node in asked)

    async def start_head() -> None:
        try:
            await start_or_not(head)
        finally:
            if not ports.done():
                ports.set_result(None)

    try:
        progress(f"starting {prepared.plan.world_size} ranks on {len(prepared.plan.nodes)} nodes")
        others = {planned.node: start_or_not(planned) for planned in prepared.plan.nodes[1:]}
        _, failed = await from_all({head.node: start_head(), **others})
    except asyncio.CancelledError:
        events.append(record.events_path, events.make("start_cut_short"))
        raise
    finally:
        token_path.unlink(missing_ok=True)
    unasked = [node.node for node in prepared.plan.nodes if node.node not in asked]
    if called_off.is_set():
        for node in unasked:
            events.append(record.events_path, events.make("start_called_off", node=node))
        progress("calling the launch off: stopping what has started")
        raise CalledOffError(record.id, _left(await _stop_started(links, prepared, record, "asked")))
    if failed:
        _record_unasked(record, unasked, failed, head.node)
        progress("the start failed: stopping what has started")
        result = await _stop_started(links, prepared, record, "start_failed")
        problems = problems_of(failed) + _left(result, told=failed)
        status = NODE_NOT_REACHED if not_reached(failed) else 1
        raise LaunchError(record.id, problems, hints_of(failed), status)


async def _is_shared(connection: AgentConnection, path: Path, token: str) -> bool:
    reply = await connection.request("shared", path=str(path), token=token)
    return reply.header.get("shared") is True


async def _start(
    connection: AgentConnection,
    plan: LaunchPlan,
    node: NodePlan,
    record: Record,
    shared: bool,
    gpus: int,
    secret_values: Mapping[str, str],
    link: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Start one node; gives the agent's reply."""
    events.append(record.events_path, events.make("start_asked", node=node.node, shared=shared))
    try:
        reply = await connection.request(
            "start",
            timeout=START_TIMEOUT,
            run=record.id,
            dir=None,
            plan=node_plan(plan, node, record.id, str(record.logs_path) if shared else None, gpus),
            secrets=dict(secret_values),
            link=dict(link),
        )
    except RankdeckError as error:
        events.append(
            record.events_path,
            events.make(
                "start_refused",
                node=node.node,
                message=without_node(node.node, error.message),
                hint=error.hint,
                unsure=isinstance(error, NodeError),
            ),
        )
        raise
    events.append(
        record.events_path, events.make("start_accepted", node=node.node, dir=text(reply.header, "dir"))
    )
    return reply.header


def node_plan(
    plan: LaunchPlan, node: NodePlan, run_id: str, log_dir: str | None, gpus: int = 0
) -> dict[str, Any]:
    """One node's share as the agent's `start` takes it (docs/agent-protocol.md).

    Args:
        plan: the whole plan.
        node: the node's share of it.
        run_id: the run.
        log_dir: where the ranks' logs go; None: the run's folder on the node.
        gpus: how many the node has, as far as known.
    """
    return {
        "run": run_id,
        "node": node.node,
        "node_rank": node.node_rank,
        "world_size": plan.world_size,
        "gpus": gpus,
        "log_dir": log_dir,
        "processes": [
            {
                **plan_json.process_json(process),
                "launcher": list(process.launcher),
                "program": list(process.program),
            }
            for process in node.processes
        ],
        "links": _links(plan),
        "joins": None if node.processes else _joined(plan),
        "join_limit": JOIN_LIMIT,
        "rank_env": dict(node.rank_env),
        "rank_cwd": node.cwd,
        "world": [{"node_rank": each.node_rank, "ranks": list(each.ranks)} for each in plan.nodes],
        "remove": [variable.name for variable in node.env_removed],
        "setup": list(plan.setup),
        "stop": {
            "signal": plan.stop.signal,
            "grace": plan.stop.grace,
            "on_rank_failure": str(plan.stop.on_rank_failure),
        },
    }


def _links(plan: LaunchPlan) -> dict[str, Any] | None:
    """What each node must know of all to be linked with them; None for a run on one node."""
    if len(plan.nodes) == 1:
        return None
    served = {
        rank for node in plan.nodes for p in node.processes if p.ends_with for rank in p.ends_with.ranks
    }
    names = [node.node for node in plan.nodes]
    limits = {"barrier": plan.barrier_timeout, "lost": LOST_AFTER}
    return {"nodes": names, **limits, "served": sorted(served)}


def _joined(plan: LaunchPlan) -> dict[str, Any] | None:
    """What a node without a process must know of the mpirun on the head node that starts its ranks."""
    for node in plan.nodes:
        for process in node.processes:
            if process.kind is ProcessKind.MPIRUN:
                told = plan_json.process_json(process)
                program = list(process.program)
                return {"program": program, "fill": told["fill"], "rank_from": told["rank_from"]}
    return None


def _record_unasked(
    record: Record, unasked: list[str], failed: Mapping[str, RankdeckError], head: str
) -> None:
    """Say of nodes that never got as far as the start why they did not: nobody need look for their ranks."""
    for node in unasked:
        error = failed.get(node)
        message = (
            f"not asked to start, as {head} was not started"
            if error is None
            else without_node(node, error.message)
        )
        hint = "" if error is None else error.hint
        event = events.make("start_refused", node=node, message=message, hint=hint, unsure=False)
        events.append(record.events_path, event)


async def _stop_started(links: Links, prepared: Prepared, record: Record, why: str) -> StopResult:
    """Stop what has started, wherever it may have."""
    stop = prepared.plan.stop
    events.append(
        record.events_path,
        events.make("stop_asked", why=why, signal=stop.signal, grace=stop.grace),
    )
    targets = read_targets(record)
    result = await stop_nodes(
        links,
        targets.backend,
        [target for target in targets.nodes if not target.missing],
        record.id,
        signal=stop.signal,
        grace=stop.grace,
        force=False,
        progress=None,
    )
    events.append(record.events_path, events.make("stop_ended", **result.to_json()))
    return result


def _left(result: StopResult, told: Collection[str] = ()) -> list[tuple[str, str]]:
    """(node, what may still be there) after a stop; but for `told`, which are known not to be reached."""
    problems = [
        (node, f"could not be told to stop: {message}")
        for node, message in result.unreached
        if node not in told
    ]
    return problems + [(p.node, f"process {p.pid} could not be ended: {p.cmd}") for p in result.left]


def _secrets(names: tuple[str, ...]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ProfileError(
            f"env_from: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in this shell",
            "export it before the start, or take it out of env_from",
        )
    return {name: os.environ[name] for name in names}


def _write_token(path: Path, token: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="ascii") as file:
        file.write(token)
