"""One agent session on one node: many requests over one pair of byte streams, whoever carries them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankdeck_backends import failures
from rankdeck_backends.base import NodeError, Step, refusal
from rankdeck_backends.channel import Channel, Ending
from rankdeck_backends.frames import FrameError, FrameParser, encode

PROTOCOL = 1
PING_INTERVAL = 5.0
"""Seconds between pings. An agent that hears nothing for 60 s ends its session."""
MISSED_PINGS = 5
"""This many intervals in a row without a single byte, and the connection counts as lost: within 30 s. TCP
sends again at growing pauses (0.2 s, doubled each time, RFC 6298): after a cut of 12 s the next try comes
at the 13th second, after a longer one at the 26th."""
CLOSE_GRACE = 2.0
"""Seconds an agent has to end by itself once its stdin is closed."""
DROP_GRACE = 1.0
"""Seconds for a dropped channel to be gone: a killed process is, at once, unless its disk hangs."""
NOISE_SHOWN = 2000
"""Bytes of the noise that are told."""
KEPT_STDERR = 16 << 10

EventHandler = Callable[[dict[str, Any], bytes], None]
"""Gets each event's header and body, on the connection's loop: must be quick and never block."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    header: Mapping[str, Any]
    body: bytes = b""


@dataclass(slots=True)
class _Call:
    op: str
    reply: asyncio.Future[Reply]
    on_event: EventHandler | None = None
    answered: bool = False
    """Whether the agent has sent its reply."""


@dataclass(slots=True)
class _Received:
    """Counters and leftovers of the incoming side."""

    count: int = 0
    stderr: bytes = b""
    parser: FrameParser = field(default_factory=FrameParser)


class AgentConnection:
    """Requests and streams to one node's agent.

    A backend makes it, attaches a channel, and feeds it with what arrives (`data_received` and the like);
    others use `request`, `stream`, `closed` and `close`. Belongs to the event loop it was made on.

    Attributes:
        node: the node's name in the pool.
        hello: the agent's first message: protocol, python, host, uid, user, home, pid, boot, time, folder.
        reached_at: the address the backend connected to, if it knows one.
        note: what a person should know of the way it was made; empty: nothing.
        closed: done when the connection is gone. Its result is the reason, or None if we closed it.
    """

    def __init__(self, node: str, *, by_hand: str = "") -> None:
        """Belongs to a backend.

        Args:
            node: the node's name in the pool.
            by_hand: what a person can type to see why an agent does not start, for messages; empty where no
                login shell is on the way.
        """
        self.node = node
        self._by_hand = by_hand
        self.hello: Mapping[str, Any] = {}
        self.reached_at: str | None = None
        self.note = ""
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[NodeError | None] = loop.create_future()
        self._greeted: asyncio.Future[None] = loop.create_future()
        self._channel: Channel | None = None
        self._calls: dict[int, _Call] = {}
        self._last_id = 0
        self._received = _Received()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self._closing = False
        self._pinger: asyncio.Task[None] | None = None

    @property
    def noise(self) -> str | None:
        """What the node's start-up files printed before the agent's first word; None: there was no shell."""
        if not self._by_hand:
            return None
        return self._received.parser.noise[:NOISE_SHOWN].decode("utf-8", "replace")

    # What users call.

    async def request(
        self,
        op: str,
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - its message names node and op
        body: bytes = b"",
        **fields: Any,
    ) -> Reply:
        """Ask for one thing and wait for the answer.

        Args:
            op: the operation's name in the protocol.
            timeout: seconds to wait for the answer; None waits as long as the connection lives.
            body: raw bytes to send along.
            fields: the request's own fields.

        Raises:
            NodeRefusal: the agent answered with an error.
            NodeError: no answer in time (the message names node and op), or the connection is gone.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._call(op, fields, body)
        except TimeoutError:
            raise NodeError(
                self.node,
                Step.AGENT,
                f"no answer to '{op}' within {timeout:g} s",
                "the node may be overloaded, or one of its file systems hang",
            ) from None

    async def stream(
        self,
        op: str,
        on_event: EventHandler,
        *,
        started: Callable[[int], None] | None = None,
        body: bytes = b"",
        **fields: Any,
    ) -> Reply:
        """Ask for something that sends events until its reply; no time limit.

        Args:
            op: the operation's name in the protocol.
            on_event: gets every event's header and body; must be quick. If it raises, this call raises that.
            started: gets the request's id before anything is sent: `watch` and `unfollow` name a follow so.
            body: raw bytes to send along.
            fields: the request's own fields.

        Raises:
            NodeRefusal: the agent answered with an error.
            NodeError: the connection is gone.
        """
        return await self._call(op, fields, body, on_event, started)

    async def silence(self, seconds: int) -> NodeError:
        """Wait until the node, asked every second, has said nothing for so long, or is gone: why.

        The connection stays as it is: those who can wait longer may yet have their answers.
        """
        missed = 0
        while missed < seconds and not self.closed.done():
            count = self._received.count
            if self._writable.is_set():
                self._tell("ping")
            await asyncio.wait({self.closed}, timeout=1.0)
            missed = missed + 1 if self._received.count == count else 0
        return self._why_closed() if self.closed.done() else failures.no_answer(self.node, missed)

    async def close(self) -> None:
        """End the session and wait until its channel is gone. Does nothing the second time."""
        self._closing = True
        if self._channel is not None and not self._gone.is_set():
            self._channel.close()
            try:
                await self._end()
            except asyncio.CancelledError:
                await self._end()  # killed at once, the agent would leave behind what it runs
                raise
            finally:
                self._finish(None)
        self._finish(None)

    async def drop(self) -> None:
        """Drop the channel, with no grace, and wait until it is gone.

        A loop that ends before would leave the child process behind it, and Python say so on the terminal.
        """
        self._closing = True
        if self._channel is not None and not self._gone.is_set():
            self._channel.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DROP_GRACE):
                    await self._gone.wait()

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_GRACE):
                await self._gone.wait()
        except TimeoutError:
            await self.drop()

    # What backends call.

    def attach(self, channel: Channel) -> None:
        """Give the connection the channel it writes to."""
        self._channel = channel

    async def greeted(self, timeout: float) -> None:  # noqa: ASYNC109
        """Wait for the agent's hello.

        Raises:
            NodeError: the agent did not start, did not speak in time, or speaks another protocol.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._greeted
        except TimeoutError:
            error = failures.silent_start(
                self.node, timeout, self._received.parser.ended(), self._received.stderr, self._by_hand
            )
            self._fail(error)
            raise error.again() from None
        self._pinger = asyncio.create_task(self._ping(), name=f"ping {self.node}")

    def data_received(self, data: bytes) -> None:
        """Take bytes of the agent's stdout."""
        self._received.count += 1
        if self.closed.done():
            return
        try:
            frames = self._received.parser.feed(data)
            for frame in frames:
                self._take(frame.header, frame.body)
        except FrameError as error:
            self._fail(failures.broken_stream(self.node, str(error)))

    def stderr_received(self, data: bytes) -> None:
        """Take bytes of the agent's stderr: kept for error messages."""
        self._received.stderr = (self._received.stderr + data)[-KEPT_STDERR:]

    def pause_writing(self) -> None:
        """The channel has enough to send for now."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The channel takes more."""
        self._writable.set()

    def channel_ended(self, ending: Ending) -> None:
        """The channel is gone; `ending` says what is known of why."""
        self._gone.set()
        if self._closing:
            self._finish(None)
        elif not self._greeted.done():
            received = self._received
            noise = received.parser.ended()
            self._fail(
                failures.failed_start(
                    self.node, noise, received.stderr, ending.status, ending.reason, self._by_hand
                )
            )
        else:
            self._fail(
                failures.lost(self.node, self._received.stderr, ending.status, ending.signal, ending.reason)
            )

    # Inside.

    async def _call(
        self,
        op: str,
        fields: Mapping[str, Any],
        body: bytes,
        on_event: EventHandler | None = None,
        started: Callable[[int], None] | None = None,
    ) -> Reply:
        await self._writable.wait()
        if self._closing or self.closed.done():
            raise self._why_closed()
        self._last_id += 1
        number = self._last_id
        if started is not None:
            started(number)
        call = _Call(op, asyncio.get_running_loop().create_future(), on_event)
        self._calls[number] = call
        try:
            self._send({"id": number, "op": op, **fields}, body)
            return await call.reply
        finally:
            del self._calls[number]
            if op == "follow" and not call.answered and not self.closed.done():
                # Nobody listens any more: the node need not read and send on.
                self._tell("unfollow", follow=number)

    def _tell(self, op: str, **fields: Any) -> None:
        """Send a request whose answer nobody waits for."""
        self._last_id += 1
        self._send({"id": self._last_id, "op": op, **fields})

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        if self._channel is None:
            raise RuntimeError("no channel is attached")
        try:
            data = encode(header, body)
        except FrameError as error:
            raise NodeError(self.node, Step.AGENT, f"'{header.get('op')}' cannot be sent: {error}") from None
        self._channel.write(data)

    def _take(self, header: dict[str, Any], body: bytes) -> None:
        if not self._greeted.done():
            self._take_hello(header)
            return
        if header.get("ev") == "protocol_error":
            self._fail(failures.refused_stream(self.node, header.get("message")))
            return
        call = self._calls.get(header.get("id", 0))
        if call is None or call.reply.done():
            return  # a ping's reply, or one that came after its asker had given up
        if "ok" not in header:
            self._take_event(call, header, body)
            return
        call.answered = True
        if header["ok"]:
            call.reply.set_result(Reply(header, body))
        else:
            call.reply.set_exception(refusal(self.node, header.get("error")))

    def _take_event(self, call: _Call, header: dict[str, Any], body: bytes) -> None:
        if call.on_event is None:
            return
        try:
            call.on_event(header, body)
        except Exception as error:  # noqa: BLE001 - the asker's handler: its fault ends its call, no other
            call.reply.set_exception(error)

    def _take_hello(self, header: dict[str, Any]) -> None:
        if header.get("ev") != "hello":
            self._fail(failures.broken_stream(self.node, f"no hello but {str(header)[:200]}"))
        elif header.get("protocol") != PROTOCOL:
            self._fail(failures.other_protocol(self.node, header.get("protocol"), PROTOCOL))
        else:
            self.hello = header
            self._greeted.set_result(None)

    async def _ping(self) -> None:
        # Ticks are counted, not seconds: a login side that was suspended must not find its peers dead.
        missed = 0
        while missed < MISSED_PINGS:
            count = self._received.count
            if self._writable.is_set():
                self._tell("ping")
            await asyncio.sleep(PING_INTERVAL)
            missed = missed + 1 if self._received.count == count else 0
        self._fail(failures.no_answer(self.node, missed * PING_INTERVAL))

    def _fail(self, error: NodeError) -> None:
        self._finish(error)
        if self._channel is not None and not self._gone.is_set():
            self._channel.abort()

    def _finish(self, error: NodeError | None) -> None:
        if self.closed.done():
            return
        self.closed.set_result(error)
        self._writable.set()  # whoever waits to write is told
        if self._pinger is not None:
            self._pinger.cancel()
        for call in self._calls.values():
            if not call.reply.done():
                call.reply.set_exception(self._why_closed())
        if not self._greeted.done():
            self._greeted.set_exception(self._why_closed())
            self._greeted.exception()  # looked at: nobody may be waiting for it

    def _why_closed(self) -> NodeError:
        error = self.closed.result() if self.closed.done() else None
        return error.again() if error is not None else failures.closed_by_us(self.node)
