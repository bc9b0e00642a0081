"""A launch that is called off while it is under way leaves nothing on any node, and says so."""

from __future__ import annotations

import asyncio
import subprocess
import threading

import pytest

from rankdeck_runs import launching
from rankdeck_runs.errors import CalledOffError
from rankdeck_runs.states import NodeState, RankState, RunState
from runs.waiting import LIMIT, finished, wait_for

SLEEPS = "time.sleep(3600)\n"


def processes_of(run_id: str) -> str:
    """Command lines that name the run: supervisors, shims and ranks have it in their folder's path."""
    found = subprocess.run(["pgrep", "-af", run_id], capture_output=True, text=True, check=False)
    return found.stdout


@pytest.fixture
def second_node_hangs(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the second node is about to be asked; it never is, by itself."""
    reached = threading.Event()
    is_shared = launching._is_shared

    async def hang(connection, path, token):
        if connection.node == "127.0.0.2":
            reached.set()
            await asyncio.sleep(3600)
        return await is_shared(connection, path, token)

    monkeypatch.setattr(launching, "_is_shared", hang)
    return reached


def test_what_has_started_is_stopped_and_nobody_else_is_asked(engine, home, program, pool, second_node_hangs):
    said: list[str] = []
    prepared = engine.prepare(program(SLEEPS), pool).result(LIMIT)
    head_started = threading.Event()

    def progress(line: str) -> None:
        said.append(line)
        if line == "127.0.0.1 started":
            head_started.set()

    starting = engine.launch(prepared, progress)
    assert second_node_hangs.wait(LIMIT)
    assert head_started.wait(LIMIT)
    engine.call_off(starting)
    with pytest.raises(CalledOffError, match=r"nothing of run .* is left on any node") as caught:
        starting.result(LIMIT)
    assert not caught.value.problems
    run_id = caught.value.run_id
    assert processes_of(run_id) == ""
    snapshot = finished(engine.attach(run_id))
    assert snapshot.state is RunState.STOPPED
    assert snapshot.cause is None
    assert [node.state for node in snapshot.nodes] == [NodeState.STOPPED] * 2
    assert snapshot.nodes[1].message == "not asked to start: the launch was called off"
    assert {rank.state for rank in snapshot.ranks} == {RankState.STOPPED}
    assert "called off" in snapshot.ranks[2].why
    assert home.find(run_id).summary().state == "stopped"


def test_before_any_node_was_asked(engine, home, program, pool, monkeypatch):
    reached = threading.Event()

    async def hang(connection, path, token):
        reached.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(launching, "_is_shared", hang)
    starting = engine.launch(engine.prepare(program(SLEEPS), pool).result(LIMIT))
    assert reached.wait(LIMIT)
    engine.call_off(starting)
    with pytest.raises(CalledOffError) as caught:
        starting.result(LIMIT)
    snapshot = finished(engine.attach(caught.value.run_id))
    assert snapshot.state is RunState.STOPPED
    assert {rank.state for rank in snapshot.ranks} == {RankState.STOPPED}


def test_a_node_that_was_asked_is_waited_for_then_stopped(engine, home, program, pool, monkeypatch):
    """Its start may be under way: where its ranks are is only known once it has answered."""
    asked, go_on = threading.Event(), threading.Event()
    start = launching._start

    async def slow(connection, *rest):
        reply = await start(connection, *rest)
        if connection.node == "127.0.0.1":
            asked.set()
            await asyncio.to_thread(go_on.wait, LIMIT)
        return reply

    monkeypatch.setattr(launching, "_start", slow)
    starting = engine.launch(engine.prepare(program(SLEEPS), pool).result(LIMIT))
    assert asked.wait(LIMIT)
    engine.call_off(starting)
    assert not starting.done()
    go_on.set()
    with pytest.raises(CalledOffError) as caught:
        starting.result(LIMIT)
    assert processes_of(caught.value.run_id) == ""


def test_a_launch_that_is_done_goes_on(engine, program, pool):
    starting = engine.launch(engine.prepare(program(SLEEPS), pool).result(LIMIT))
    run_id = starting.result(LIMIT)
    engine.call_off(starting)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    assert engine.stop(run_id, force=True).result(LIMIT).gone
