"""A run behind a jump host that wants a code: lost with its connection, and back when the person says so."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from backends.asked import Person, asking_server
from backends.open_sshd import SSHD, OpenSshd, free_port
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_runs.engine import Engine
from rankdeck_runs.live import LinkState
from rankdeck_runs.states import RunState
from runs.waiting import LIMIT

pytestmark = pytest.mark.skipif(SSHD is None, reason="OpenSSH's server is not installed (sshd)")

CODE = ["123456"]
ROUNDS = (("", "", [("Code: ", False)], CODE),)


@pytest.fixture
def server(tmp_path, monkeypatch):
    made = OpenSshd(tmp_path / "sshd").start()
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(made.ssh_config))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


def behind_a_gate(server: OpenSshd, port: int) -> Pool:
    server.write_config("ProxyJump gate", host="gpu1")
    node = server.ssh_config.read_text()
    server.write_config(f"Port {port}", host="gate")
    server.ssh_config.write_text(node + server.ssh_config.read_text())
    gate_line = server.known_line().replace(f":{server.port}", f":{port}")
    server.known_hosts.write_text(server.known_line() + gate_line)
    return Pool("far", BackendKind.SSH, (PoolNode("gpu1", "gpu1"),), slots=2)


async def until(condition, what: str) -> None:
    try:
        async with asyncio.timeout(LIMIT):
            while not condition():  # noqa: ASYNC110 - another thread makes it so
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"no {what} within {LIMIT} s") from None


async def test_a_code_is_asked_for_again_and_not_without_end(server, home, program, tmp_path: Path):
    port = free_port()
    pool = behind_a_gate(server, port)
    person = Person(CODE)
    async with asking_server(port, server.host_key, rounds=ROUNDS) as logins:
        engine = Engine(home, asker=person)
        try:
            source = "for n in range(10**9):\n print(n, flush=True)\n time.sleep(0.01)\n"
            source += " if os.path.exists('go'): break\n"
            prepared = await asyncio.wrap_future(engine.prepare(program(source), pool))
            run_id = await asyncio.wrap_future(engine.launch(prepared))
            live = engine.attach(run_id)
            await until(lambda: live.growth(0, "out").size > 100, "output")
            assert len(person.asked) == 1

            person.answers += [None]
            logins[0].connection.abort()
            await until(lambda: live.links["gpu1"].needs_person, "link that needs the person")
            assert live.links["gpu1"].state is LinkState.LOST
            assert "jump host gate (hop 1 of 2)" in live.links["gpu1"].message
            assert len(person.asked) == 2
            await asyncio.sleep(4)
            assert len(person.asked) == 2

            person.answers += [CODE]
            live.reconnect()
            await until(lambda: live.links["gpu1"].state is LinkState.CONNECTED, "link")
            (tmp_path / "go").touch()
            await until(lambda: live.snapshot().complete, "end")
            assert live.snapshot().state is RunState.SUCCEEDED
            out = home.find(run_id).log_path("rank-00000.out").read_text().split()
            assert out == [str(number) for number in range(len(out))]  # no gap, nothing twice
        finally:
            (tmp_path / "go").touch()
            await asyncio.to_thread(engine.close)
    secrets = b"123456"
    for folder, _, names in os.walk(home.path):
        for name in names:
            assert secrets not in (Path(folder) / name).read_bytes() or name.endswith(".out")
