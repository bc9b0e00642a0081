"""A run whose node can't be reached for a while: between connections, and in the middle of the next login."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from backends.open_sshd import SSHD, OpenSshd, free_port
from rankdeck_backends import connection
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_runs import node_follow
from rankdeck_runs.engine import Engine
from rankdeck_runs.events import read
from rankdeck_runs.live import LinkState
from rankdeck_runs.states import RunState
from runs.waiting import LIMIT

pytestmark = pytest.mark.skipif(SSHD is None, reason="OpenSSH's server is not installed (sshd)")

NUMBERS = """
for n in range(10**9):
    print(n, flush=True)
    time.sleep(0.005)
    if os.path.exists('go'): break
"""


@dataclass
class Wire:
    """What lies between rankdeck and a node's sshd. Cut, it carries nothing and closes nothing, as a firewall
    that has forgotten the connection.
    """

    port: int
    upstream: int
    cut: bool = False
    next_ones_carry: list[int] = field(default_factory=list)
    """For the next connections, after how many bytes from the node each is cut."""
    cut_in_login: int = 0
    """How many were."""
    _open: list[list[bool]] = field(default_factory=list)

    def cut_all(self) -> None:
        """All that are open, for good, and those to come, until it is mended."""
        self.cut = True
        for carries in self._open:
            carries[0] = False

    @contextlib.asynccontextmanager
    async def laid(self):
        server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        try:
            yield self
        finally:
            server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carries = [not self.cut]
        self._open.append(carries)
        limit = self.next_ones_carry.pop(0) if carries[0] and self.next_ones_carry else None
        there, back = await asyncio.open_connection("127.0.0.1", self.upstream)
        try:
            await asyncio.gather(
                self._pump(reader, back, carries, None), self._pump(there, writer, carries, limit)
            )
        except OSError:
            pass  # it was closed at the other end
        finally:
            back.close()
            writer.close()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        carries: list[bool],
        limit: int | None,
    ) -> None:
        passed = 0
        while data := await source.read(500):
            if limit is not None and carries[0] and passed + len(data) > limit:
                self.cut_in_login += 1
                carries[0] = False
            if carries[0]:
                passed += len(data)
                sink.write(data)
                await sink.drain()
        sink.close()


@pytest.fixture
def server(tmp_path, monkeypatch):
    made = OpenSshd(tmp_path / "sshd").start()
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(made.ssh_config))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


async def until(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(LIMIT):
            while not condition():  # noqa: ASYNC110 - another thread makes it so
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"no {what} within {LIMIT} s") from None


async def test_following_goes_on_at_the_byte_after_a_long_cut_and_one_within_a_login(
    server, home, program, tmp_path, monkeypatch
):
    # A connection counts as lost after 2 s without an answer, not 25; the cut lasts several times that.
    monkeypatch.setattr(connection, "PING_INTERVAL", 0.5)
    monkeypatch.setattr(connection, "MISSED_PINGS", 4)
    monkeypatch.setattr(node_follow, "RETRY_MOST", 1.0)
    wire = Wire(free_port(), server.port)
    server.known_hosts.write_text(server.known_line().replace(f":{server.port}", f":{wire.port}"))
    server.write_config(f"Port {wire.port}", "ConnectTimeout 2", host="gpu1")
    pool = Pool("far", BackendKind.SSH, (PoolNode("gpu1", "gpu1"),), slots=2)
    engine = Engine(home)
    async with wire.laid():
        try:
            prepared = await asyncio.wrap_future(engine.prepare(program(NUMBERS), pool))
            run_id = await asyncio.wrap_future(engine.launch(prepared))
            live = engine.attach(run_id)
            await until(lambda: live.growth(0, "out").size > 500, "output")

            wire.cut_all()
            await until(lambda: live.links["gpu1"].state is LinkState.LOST, "lost link")
            before = live.growth(0, "out").size
            await asyncio.sleep(6)
            assert live.links["gpu1"].state is LinkState.LOST
            assert not live.snapshot().state.is_terminal  # the ranks go on: it has not failed
            assert live.growth(0, "out").size == before
            # sshd's version and algorithms are 1.1 kB, its keys 0.7, then comes the authentication.
            wire.next_ones_carry += [600, 1900]
            wire.cut = False
            await until(lambda: live.links["gpu1"].state is LinkState.CONNECTED, "link")
            assert wire.cut_in_login, "no login was cut"
            await until(lambda: live.growth(0, "out").size > before + 500, "further output")

            (tmp_path / "go").touch()
            await until(lambda: live.snapshot().complete, "end")
            assert live.snapshot().state is RunState.SUCCEEDED
        finally:
            (tmp_path / "go").touch()
            await asyncio.to_thread(engine.close)
    record = home.find(run_id)
    for rank in range(2):
        out = record.log_path(f"rank-{rank:05d}.out").read_text().split()
        assert out == [str(number) for number in range(len(out))]  # no gap, nothing twice
    links = [event for event in read(record.events_path) if event["ev"].startswith("link_")]
    assert [event["ev"] for event in links][:2] == ["link_up", "link_lost"]
    assert links[-1]["ev"] == "link_up"
    assert {event["step"] for event in links if event["ev"] == "link_lost"} >= {"lost", "connect"}
