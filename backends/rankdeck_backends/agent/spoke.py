"""A node's link to the head node's supervisor: made, proven, and made again whenever it has failed."""

import errno
import os
import socket
import time

from . import sealing
from .lines import LINE_LIMIT, Lines, line_of, object_of

_RETRY_FIRST, _RETRY_MOST = 0.1, 2.0
"""Seconds before the next attempt: doubled from the first to the most."""
_ATTEMPT_LIMIT = 5.0
"""Seconds for a connection to be made and proven."""


class Spoke:
    """The link of a node that is not the head.

    Attributes:
        is_up: whether the head has proven who it is.
        trouble: why there is no link, in words.
    """

    def __init__(self, loop, where, run, node_rank, on_message):
        """Prepare; `tick` connects.

        Args:
            loop: the supervisor's.
            where: `{address, port, secret}`; the address is a number, not a name.
            run: the run's id.
            node_rank: this node's.
            on_message: called with each message.
        """
        self._loop = loop
        self._address, self._port, self._secret = where["address"], where["port"], where["secret"]
        self._run = run
        self._node_rank = node_rank
        self._on_message = on_message
        self._connecting = None
        self._lines = None
        self._seal = None
        self._nonces = []
        self._next = 0.0
        self._pause = _RETRY_FIRST
        self.is_up = False
        self.trouble = "not tried yet"

    def due(self):
        """When `tick` must be called (monotonic), or None."""
        return None if self.is_up else self._next

    def tick(self, now):
        """Try again, or give an attempt up, when it is time."""
        if self.is_up or now < self._next:
            return
        if self._connecting is not None or self._lines is not None:
            self._fail("no answer within {:g} s".format(_ATTEMPT_LIMIT))
            return
        self._connect(now)

    def send(self, message):
        """Say something to the head; nothing if there is no link."""
        if self.is_up:
            self._lines.send(self._seal.close(message))

    def let_go(self):
        """Close a link that is silent, and make another."""
        if self.is_up:
            self._fail("the head node is silent")

    def close(self):
        """End it for good."""
        self._drop()

    def _connect(self, now):
        self._next = now + _ATTEMPT_LIMIT
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        try:
            self._connecting = socket.socket(family, socket.SOCK_STREAM)
            self._connecting.setblocking(False)
            number = self._connecting.connect_ex((self._address, self._port))
        except OSError as error:
            number = error.errno
        if number in (0, errno.EINPROGRESS):
            self._loop.watch(self._connecting.fileno(), self._connected, writing=True)
        else:
            self._fail(os.strerror(number))

    def _connected(self):
        made, self._connecting = self._connecting, None
        self._loop.forget(made.fileno())
        number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            made.close()
            self._fail(os.strerror(number))
            return
        self._nonces = []
        self._lines = Lines(self._loop, made, self._take, self._fail)

    def _take(self, line):
        if self.is_up:
            try:
                self._on_message(self._seal.open(line))
            except (sealing.Forged, ValueError):
                self._fail("what it says is not the head node's")
            return
        message = object_of(line) or {}
        if not self._nonces:
            self._answer(message.get("nonce"))
        elif sealing.is_proven(self._proof("head"), message.get("proof")):
            self._seal = sealing.Seal(self._proof("key"), "node", "head")
            self._lines.limit = LINE_LIMIT
            self.is_up = True
            self.trouble = ""
            self._pause = _RETRY_FIRST
        else:
            self._fail("what answers there is not the head node's supervisor")

    def _answer(self, theirs):
        if not isinstance(theirs, str):
            self._fail("what answers there is not the head node's supervisor")
            return
        self._nonces = [theirs, sealing.nonce()]
        said = {"node_rank": self._node_rank, "nonce": self._nonces[1], "proof": self._proof("node")}
        self._lines.send(line_of(said))

    def _proof(self, role):
        return sealing.proof(self._secret, role, self._run, self._node_rank, self._nonces)

    def _fail(self, why):
        self._drop()
        self.trouble = why
        self._next = time.monotonic() + self._pause
        self._pause = min(_RETRY_MOST, self._pause * 2)

    def _drop(self):
        self.is_up = False
        if self._lines is not None:
            self._lines.close()
            self._lines = None
        if self._connecting is not None:
            self._loop.forget(self._connecting.fileno())
            self._connecting.close()
            self._connecting = None
