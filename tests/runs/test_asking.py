"""A login that needs the person: its link waits for them, and nothing is tried in the meantime."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.local import LocalBackend
from rankdeck_profiles.model import BackendKind, PoolNode
from rankdeck_runs import links, node_follow
from rankdeck_runs.live import LinkState
from rankdeck_runs.patience import PatientAsker, within
from rankdeck_runs.states import RunState
from runs.test_reattach import sessions
from runs.waiting import finished, launched, wait_for


class Gate(LocalBackend):
    """This machine behind a login that may need the person, or refuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.needs_person = False
        self.refuses = False
        self.tries = 0

    async def open(self, node):
        self.tries += 1
        if self.needs_person:
            raise NodeError(node.name, Step.AUTH, "a code was asked for in vain", needs_person=True)
        if self.refuses:
            raise NodeError(node.name, Step.AUTH, "no key was accepted")
        return await super().open(node)


@pytest.fixture
def gate(monkeypatch):
    made = Gate()
    monkeypatch.setattr(links, "open_backend", lambda kind, **options: made)
    return made


def cut(gate) -> None:
    gate.tries = 0
    for pid in sessions():
        os.kill(pid, signal.SIGKILL)


def test_a_login_that_needs_the_person_waits_for_them(gate, engine, program, pool, tmp_path):
    run_id = launched(engine, program("while not os.path.exists('go'): time.sleep(0.05)"), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "a running run")
    gate.needs_person = True
    cut(gate)
    wait_for(live, lambda s: all(link.needs_person for link in live.links.values()), "links that need us")
    since = {node: link.since for node, link in live.links.items()}
    time.sleep(4)  # several of the pauses between tries
    assert gate.tries == len(pool.nodes)
    live.reconnect()
    wait_for(live, lambda s: gate.tries == 2 * len(pool.nodes), "another try each")
    assert {node: link.since for node, link in live.links.items()} == since
    gate.needs_person = False
    live.reconnect()
    wait_for(
        live, lambda s: all(link.state is LinkState.CONNECTED for link in live.links.values()), "links again"
    )
    (tmp_path / "go").touch()
    assert finished(live).state is RunState.SUCCEEDED


def test_a_refused_login_is_tried_less_and_less_often(gate, engine, program, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(node_follow, "RETRY_MOST", 0.5)
    run_id = launched(engine, program("while not os.path.exists('go'): time.sleep(0.05)"), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "a running run")
    gate.refuses = True
    cut(gate)
    wait_for(live, lambda s: all(link.state is LinkState.LOST for link in live.links.values()), "lost links")
    time.sleep(6)
    # After 0.5, 1, 2, 4 s and so on, 0.8 of it at least; not every half second.
    assert gate.tries <= 5 * len(pool.nodes)
    gate.refuses = False
    live.reconnect()
    (tmp_path / "go").touch()
    assert finished(live).state is RunState.SUCCEEDED


async def test_logins_that_wait_for_the_person_hold_up_no_others(monkeypatch):
    """So that a large pool's host keys can be shown all together."""
    answered, waiting = asyncio.Event(), 0

    class Asking:
        kind = "ssh"

        async def open(self, node):
            nonlocal waiting
            waiting += 1
            await answered.wait()
            raise NodeError(node.name, Step.HOST_KEY, "not accepted", needs_person=True)

        async def close(self):
            pass

    monkeypatch.setattr(links, "open_backend", lambda kind, **options: Asking())
    shared = links.Links(10.0)

    async def use(node):
        async with shared.use(BackendKind.SSH, node):
            raise AssertionError("it was refused")

    nodes = [PoolNode(f"n{number}", f"n{number}") for number in range(100)]
    uses = [asyncio.create_task(use(node)) for node in nodes]
    async with asyncio.timeout(60):
        while waiting < len(nodes):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        answered.set()
        for result in await asyncio.gather(*uses, return_exceptions=True):
            assert isinstance(result, NodeError)
        await shared.close()


async def test_the_time_a_person_takes_does_not_count():
    class Slow:
        async def secrets(self, question):
            await asyncio.sleep(3)
            return ["typed"]

    patient = PatientAsker(Slow())
    assert await within(patient.secrets("?"), 1.5, patient) == ["typed"]
    with pytest.raises(TimeoutError):
        await within(asyncio.sleep(60), 0.5, patient)
    cancelled = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(True)

    with pytest.raises(TimeoutError):
        await within(work(), 0.1, None)
    assert cancelled
