"""The connection against a peer that is a list of bytes: what it sends, what it makes of what comes."""

import asyncio

import pytest

from rankdeck_backends import connection as connection_module
from rankdeck_backends.base import NodeError, NodeRefusal, Step
from rankdeck_backends.channel import Ending
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.frames import MARKER, MAX_HEADER, Frame, FrameParser, encode

LIMIT = 20.0


class Peer:
    """A channel whose other end is the test."""

    def __init__(self) -> None:
        self.connection = AgentConnection("n1", by_hand="ssh n1 python3 -V")
        self.connection.attach(self)
        self.requests: list[Frame] = []
        self.came = asyncio.Event()
        self.closed = self.aborted = False
        self._parser = FrameParser(marker=b"")

    def write(self, data: bytes) -> None:
        self.requests += self._parser.feed(data)
        self.came.set()

    def close(self) -> None:
        self.closed = True
        self.connection.channel_ended(Ending(status=0))

    def abort(self) -> None:
        self.aborted = True
        self.connection.channel_ended(Ending(reason="aborted"))

    def say(self, header: dict, body: bytes = b"") -> None:
        self.connection.data_received(encode(header, body))

    async def asked(self, op: str) -> dict:
        """The first request with that op, once it has come."""
        async with asyncio.timeout(LIMIT):
            while True:
                self.came.clear()
                for request in self.requests:
                    if request.header["op"] == op:
                        return request.header
                await self.came.wait()

    async def greet(self) -> AgentConnection:
        self.connection.data_received(b"Welcome to n1\n" + MARKER + encode({"ev": "hello", "protocol": 1}))
        await self.connection.greeted(LIMIT)
        return self.connection


async def finished(awaitable):
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def test_answers_find_their_askers_whatever_the_order():
    peer = Peer()
    connection = await peer.greet()
    first = asyncio.create_task(connection.request("probe"))
    second = asyncio.create_task(connection.request("read", name="3.out"))
    probe, read = await peer.asked("probe"), await peer.asked("read")
    assert read["name"] == "3.out"
    peer.say({"id": read["id"], "ok": True, "size": 3}, b"\0\xff\n")
    peer.say({"id": probe["id"], "ok": True, "cpus": 2})
    assert (await finished(first)).header["cpus"] == 2
    reply = await finished(second)
    assert (reply.header["size"], reply.body) == (3, b"\0\xff\n")


async def test_a_stream_gives_every_event_in_order_and_ends_with_the_reply():
    peer = Peer()
    connection = await peer.greet()
    events, ids = [], []
    stream = asyncio.create_task(
        connection.stream(
            "follow", lambda header, body: events.append((header["n"], body)), started=ids.append
        )
    )
    request = await peer.asked("follow")
    assert ids == [request["id"]]
    for number in range(5):
        peer.say({"id": request["id"], "ev": "log", "n": number}, b"%d" % number)
    peer.say({"id": request["id"], "ok": True, "state": "succeeded"})
    assert (await finished(stream)).header["state"] == "succeeded"
    assert events == [(number, b"%d" % number) for number in range(5)]


async def test_a_stream_that_nobody_awaits_any_more_is_ended_on_the_node():
    peer = Peer()
    connection = await peer.greet()
    stream = asyncio.create_task(connection.stream("follow", lambda header, body: None))
    request = await peer.asked("follow")
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    assert (await peer.asked("unfollow"))["follow"] == request["id"]
    peer.say({"id": request["id"], "ev": "log"})
    assert not connection.closed.done()


async def test_a_handler_that_fails_ends_its_stream_and_no_other():
    peer = Peer()
    connection = await peer.greet()
    stream = asyncio.create_task(connection.stream("follow", lambda header, body: header["missing"]))
    request = await peer.asked("follow")
    peer.say({"id": request["id"], "ev": "log"})
    with pytest.raises(KeyError, match="missing"):
        await finished(stream)
    assert (await peer.asked("unfollow"))["follow"] == request["id"]
    assert not connection.closed.done()


async def test_a_refusal_carries_kind_message_and_hint():
    peer = Peer()
    connection = await peer.greet()
    asking = asyncio.create_task(connection.request("start"))
    request = await peer.asked("start")
    error = {"kind": "exists", "message": "run r1 is there already", "hint": "stop it first"}
    peer.say({"id": request["id"], "ok": False, "error": error})
    with pytest.raises(NodeRefusal) as caught:
        await finished(asking)
    [problem] = caught.value.problems
    assert (problem.node, problem.kind) == ("n1", "exists")
    assert caught.value.exit_status == 2
    assert str(caught.value) == "n1: run r1 is there already\n  stop it first"


@pytest.mark.parametrize("error", [None, "no", {}, {"kind": None}])
async def test_a_refusal_without_a_reason_is_one_all_the_same(error):
    peer = Peer()
    connection = await peer.greet()
    asking = asyncio.create_task(connection.request("start"))
    peer.say({"id": (await peer.asked("start"))["id"], "ok": False, "error": error})
    with pytest.raises(NodeRefusal, match="n1: "):
        await finished(asking)


async def test_an_agent_that_could_not_answer_is_no_refusal():
    peer = Peer()
    connection = await peer.greet()
    asking = asyncio.create_task(connection.request("probe"))
    error = {"kind": "timeout", "message": "'probe' took more than 15 s"}
    peer.say({"id": (await peer.asked("probe"))["id"], "ok": False, "error": error})
    with pytest.raises(NodeError, match="took more than 15 s") as caught:
        await finished(asking)
    assert (caught.value.step, caught.value.exit_status) == (Step.AGENT, 3)


async def test_no_answer_in_time_names_node_and_op_and_a_late_one_does_no_harm():
    peer = Peer()
    connection = await peer.greet()
    with pytest.raises(NodeError, match=r"n1: no answer to 'probe' within 0\.05 s") as caught:
        await finished(connection.request("probe", timeout=0.05))
    assert caught.value.step is Step.AGENT
    peer.say({"id": (await peer.asked("probe"))["id"], "ok": True})
    asking = asyncio.create_task(connection.request("ping2"))
    peer.say({"id": (await peer.asked("ping2"))["id"], "ok": True})
    await finished(asking)


async def test_a_lost_channel_ends_all_that_wait():
    peer = Peer()
    connection = await peer.greet()
    asking = [asyncio.create_task(connection.request(f"op{number}")) for number in range(3)]
    await peer.asked("op2")
    connection.stderr_received(b"Killed by administrator\n")
    connection.channel_ended(Ending(reason="Connection reset by peer"))
    for task in asking:
        with pytest.raises(NodeError, match="Connection reset by peer") as caught:
            await finished(task)
        assert caught.value.step is Step.LOST
    reason = await finished(connection.closed)
    assert reason is not None
    assert "Killed by administrator" in str(reason)
    with pytest.raises(NodeError, match="reset"):
        await connection.request("ping")


async def test_closing_gives_none_as_the_reason_and_ends_what_waits():
    peer = Peer()
    connection = await peer.greet()
    asking = asyncio.create_task(connection.request("probe"))
    await peer.asked("probe")
    await finished(connection.close())
    assert peer.closed
    assert await finished(connection.closed) is None
    with pytest.raises(NodeError, match="the connection was closed"):
        await finished(asking)
    await finished(connection.close())


async def test_a_peer_that_says_nothing_is_lost_and_one_that_answers_pings_is_not(monkeypatch):
    monkeypatch.setattr(connection_module, "PING_INTERVAL", 0.05)
    quiet, lively = Peer(), Peer()
    await quiet.greet()
    connection = await lively.greet()
    answered = 0

    async def answer() -> None:
        nonlocal answered
        while True:
            for request in lively.requests[answered:]:
                lively.say({"id": request.header["id"], "ok": True})
                answered += 1
            lively.came.clear()
            await lively.came.wait()

    answering = asyncio.create_task(answer())
    reason = await finished(quiet.connection.closed)
    assert reason is not None
    assert reason.step is Step.LOST
    assert "nothing came from it" in str(reason)
    assert quiet.aborted
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.shield(connection.closed)
    assert answered > connection_module.MISSED_PINGS
    answering.cancel()


async def test_output_that_is_no_frame_ends_the_connection_and_is_shown():
    peer = Peer()
    connection = await peer.greet()
    connection.data_received(b"Segmentation fault (core dumped)\n")
    reason = await finished(connection.closed)
    assert reason is not None
    assert reason.step is Step.AGENT
    assert "Segmentation fault" in str(reason)
    assert peer.aborted


async def test_requests_wait_while_the_channel_is_full():
    peer = Peer()
    connection = await peer.greet()
    connection.pause_writing()
    asking = asyncio.create_task(connection.request("start", body=b"much"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(asking)
    assert not [request for request in peer.requests if request.header["op"] == "start"]
    connection.resume_writing()
    peer.say({"id": (await peer.asked("start"))["id"], "ok": True})
    await finished(asking)


async def test_a_request_that_is_too_long_is_refused_here_and_the_connection_lives():
    peer = Peer()
    connection = await peer.greet()
    with pytest.raises(NodeError, match="'start' cannot be sent: a header of"):
        await finished(connection.request("start", plan="x" * MAX_HEADER))
    assert not connection.closed.done()


@pytest.mark.parametrize(
    ("said", "step", "shown"),
    [
        (b"", Step.SHELL, "said nothing"),
        (b"This account is currently not available.\n", Step.SHELL, "currently not available"),
        (
            b"loading modules\nRANKDECK-NO-PYTHON tried python3 /usr/bin/python3\n",
            Step.PYTHON,
            "python3 /usr/bin/python3",
        ),
        (b"RANKDECK-OLD-PYTHON /usr/bin/python3 (Python 3.4.9)\n", Step.PYTHON, "3.4.9"),
        (
            b"RANKDECK-NO-FOLDER /var/tmp/rankdeck-7: Read-only file system\n",
            Step.AGENT,
            "Read-only file system",
        ),
        (b"\x1b[31mError:\x1b[0m \x1b]0;owned\x07no\rhome\n", Step.SHELL, "Error: no"),
    ],
)
async def test_a_start_that_fails_says_at_which_step_and_what_was_seen(said, step, shown):
    peer = Peer()
    peer.connection.data_received(said)
    peer.connection.channel_ended(Ending(status=127))
    with pytest.raises(NodeError) as caught:
        await peer.connection.greeted(LIMIT)
    assert caught.value.step is step
    assert shown in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert caught.value.hint


async def test_no_hello_in_time_shows_what_the_shell_said_so_far():
    peer = Peer()
    peer.connection.data_received(b"Press any key to continue...")
    with pytest.raises(NodeError, match="Press any key") as caught:
        await peer.connection.greeted(0.05)
    assert caught.value.step is Step.SHELL
    assert peer.aborted


async def test_another_protocol_is_named():
    peer = Peer()
    peer.connection.data_received(MARKER + encode({"ev": "hello", "protocol": 2}))
    with pytest.raises(NodeError, match="speaks protocol 2; this rankdeck speaks 1"):
        await peer.connection.greeted(LIMIT)
