import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import stand_in

from rankdeck_backends import open_backend, package
from rankdeck_backends.base import NodeError, NodeRefusal, Step
from rankdeck_backends.local import LocalBackend
from rankdeck_profiles.model import BackendKind, PoolNode

NODE = PoolNode("here", "127.0.0.1")
LIMIT = 60.0


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_the_agent_answers_and_goes(tmp_path):
    backend = open_backend(BackendKind.LOCAL)
    async with asyncio.timeout(LIMIT):
        connection = await backend.open(NODE)
        assert connection.hello["protocol"] == 1
        assert connection.hello["uid"] == os.getuid()
        assert connection.hello["folder"] == str(tmp_path / "node")
        agent = connection.hello["pid"]
        assert os.getsid(agent) != os.getsid(0)  # Ctrl-C in our terminal is not its business
        assert (await connection.request("ping")).header["time"] > 0
        with pytest.raises(NodeRefusal, match="dance"):
            await connection.request("dance")
        await connection.close()
        assert await connection.closed is None
    with pytest.raises(ProcessLookupError):
        os.kill(agent, 0)
    await backend.close()


async def test_a_close_that_is_cancelled_leaves_nothing(tmp_path):
    """The engine's end cancels all that runs, a close that has just begun among it."""
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        agent = connection.hello["pid"]
        setup = f"echo $$ > {tmp_path}/pid; exec sleep 600"
        asked = asyncio.create_task(connection.request("check", needs=[], cwd="~", setup=[setup]))
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        closing = asyncio.create_task(connection.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert connection.closed.done()  # the loop may end now
        with pytest.raises(NodeError, match="closed"):
            await asked
    with pytest.raises(ProcessLookupError):
        os.kill(agent, 0)
    line = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    async with asyncio.timeout(LIMIT):
        await until(lambda: not line.exists() or not line.read_bytes())  # a zombie has none


async def test_any_thread_with_a_loop_may_use_it():
    async def use() -> object:
        async with asyncio.timeout(LIMIT):
            connection = await LocalBackend().open(NODE)
            reply = await connection.request("ping")
            await connection.close()
            return reply.header["ok"]

    assert await asyncio.to_thread(lambda: asyncio.run(use()))


async def test_the_agent_has_the_users_environment(monkeypatch, tmp_path):
    tool = tmp_path / "tools" / "nvidia-smi-of-mine"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        need = {"kind": "program", "value": tool.name, "by": "", "why": "command"}
        missing = {**need, "value": "no-such-tool"}
        reply = await connection.request("check", needs=[need, missing], cwd="~", setup=[])
        assert [problem["value"] for problem in reply.header["problems"]] == ["no-such-tool"]
        refusal = NodeRefusal.from_check("here", reply.header["problems"])
        assert "no-such-tool" in str(refusal)
        await connection.close()


async def test_each_node_has_an_agent_of_its_own():
    backend = LocalBackend()
    async with asyncio.timeout(LIMIT):
        nodes = [PoolNode(f"n{number}", f"127.0.0.{number}") for number in (1, 2)]
        one, two = await asyncio.gather(*(backend.open(node) for node in nodes))
        assert one.hello["pid"] != two.hello["pid"]
        assert (one.node, two.node) == ("n1", "n2")
        await one.close()
        assert (await two.request("ping")).header["ok"]
        await two.close()


async def test_a_killed_agent_resolves_closed(stand_in_agent):
    stand_in_agent()
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        came = asyncio.Event()
        stream = asyncio.create_task(connection.stream("drip", lambda header, body: came.set()))
        await came.wait()
        os.kill(connection.hello["pid"], signal.SIGKILL)
        with pytest.raises(NodeError, match="signal KILL"):
            await stream
        reason = await connection.closed
        assert reason is not None
        assert reason.step is Step.LOST


async def test_an_agent_that_ends_tells_its_status_and_last_words(stand_in_agent):
    stand_in_agent()
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        with pytest.raises(NodeError, match=r"(?s)status 3.*out of luck"):
            await connection.request("die", status=3)


async def test_large_bodies_go_both_ways(stand_in_agent):
    stand_in_agent()
    body = os.urandom(8 << 20)
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        reply = await connection.request("echo", body=body, say="caf\udce9")
        assert reply.body == body
        assert reply.header["said"] == "caf\udce9"
        await connection.close()


async def test_garbage_in_the_stream_is_named(stand_in_agent):
    stand_in_agent()
    async with asyncio.timeout(LIMIT):
        connection = await LocalBackend().open(NODE)
        with pytest.raises(NodeError, match="Segmentation fault"):
            await connection.request("garbage")


@pytest.mark.parametrize(
    ("source", "step", "shown"),
    [
        (stand_in.OTHER_PROTOCOL, Step.AGENT, "protocol 2"),
        (stand_in.CRASHES, Step.AGENT, "RuntimeError: rankdeck_agent is unwell"),
    ],
)
async def test_an_agent_that_does_not_start_says_why(stand_in_agent, source, step, shown):
    stand_in_agent(source)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(NodeError, match=shown) as caught:
            await LocalBackend().open(NODE)
    assert caught.value.step is step


async def test_an_interpreter_that_is_gone_is_named(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(NodeError, match="/nowhere/python3 cannot be started: No such file") as caught:
        await LocalBackend().open(NODE)
    assert caught.value.step is Step.PYTHON


async def test_a_node_folder_that_cannot_be_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RANKDECK_NODE_DIR", str(tmp_path / "file" / "node"))
    async with asyncio.timeout(LIMIT):
        with pytest.raises(NodeError, match=r"file/node") as caught:
            await LocalBackend().open(NODE)
    assert caught.value.step is Step.AGENT
    assert "RANKDECK_NODE_DIR" in caught.value.hint


async def test_the_agent_is_packed_once_and_not_on_the_loop(monkeypatch):
    packed = []
    slimmed = package.slimmed

    def noted(source: bytes) -> bytes:
        packed.append((threading.current_thread(), source))
        return slimmed(source)

    monkeypatch.setattr(package, "slimmed", noted)
    package.agent_zip.cache_clear()
    package._bootstrap_input.cache_clear()
    backends = [LocalBackend(), LocalBackend()]
    async with asyncio.timeout(LIMIT):
        opened = await asyncio.gather(*(backend.open(NODE) for backend in backends for _ in range(2)))
        await asyncio.gather(*(connection.close() for connection in opened))
    assert packed
    assert threading.main_thread() not in {thread for thread, _ in packed}
    assert len({source for _, source in packed}) == len(packed)
