"""The head node's end of the links: takes the other supervisors' connections, once they are proven."""

import errno
import socket
import time

from . import sealing
from .accepting import next_caller
from .lines import LINE_LIMIT, Lines, line_of, object_of

PROOF_LIMIT = 10.0
"""Seconds for a connection to prove who it is."""
_STRANGERS = 64
"""Connections beside one for each node that may be unproven at a time; then the oldest is let go."""


class Hub:
    """Listens, and holds one link a node.

    Attributes:
        port: where it listens.
        links: {node rank: its proven connection}.
    """

    def __init__(self, loop, secret, run, nodes, on_message):
        """Prepare; `listen` begins.

        Args:
            loop: the supervisor's.
            secret: the run's.
            run: its id.
            nodes: how many nodes the run has.
            on_message: called with `(node rank, message)`.
        """
        self._loop = loop
        self._secret = secret
        self._run = run
        self._nodes = nodes
        self._on_message = on_message
        self._listener = None
        self._unproven = []
        self.port = 0
        self.links = {}

    def listen(self, address, port):
        """Listen at the address that the others connect to, or at all if it is none of this machine's own.

        Args:
            address: the head node's in the plan.
            port: 0: the kernel chooses.

        Raises:
            OSError: the port is taken.
        """
        self._listener = _listener(address, port)
        self.port = self._listener.getsockname()[1]
        self._loop.watch(self._listener.fileno(), self._accept)

    def send(self, node_rank, message):
        """Say something to a node; nothing if it is not linked."""
        connection = self.links.get(node_rank)
        if connection is not None:
            connection.say(message)

    def let_go(self, node_rank):
        """Close a link that is silent: the node makes another when it can."""
        connection = self.links.get(node_rank)
        if connection is not None:
            connection.lines.end("silent")

    def tick(self, now):
        """Let those go who have not proven who they are."""
        while self._unproven and now >= self._unproven[0].deadline:
            self._unproven.pop(0).lines.end("no proof in time")

    def close(self):
        """Let everybody go."""
        for connection in self._unproven + list(self.links.values()):
            connection.lines.close()
        if self._listener is not None:
            self._loop.forget(self._listener.fileno())
            self._listener.close()

    def _accept(self):
        while True:
            accepted = next_caller(self._loop, self._listener)
            if accepted is None:
                return
            if len(self._unproven) >= _STRANGERS + self._nodes:
                self._unproven.pop(0).lines.end("too many")
            self._unproven.append(_Link(self, accepted))

    # -- what its connections tell ------------------------------------------------------------------------

    def greet(self, link, message):
        """An unproven connection's one line: its proof."""
        node_rank, nonces = message.get("node_rank"), [link.nonce, message.get("nonce")]
        known = isinstance(node_rank, int) and 0 < node_rank < self._nodes and isinstance(nonces[1], str)
        if not known or not sealing.is_proven(self._proof("node", node_rank, nonces), message.get("proof")):
            link.lines.end("no proof")
            return
        self._unproven.remove(link)
        if node_rank in self.links:
            self.links[node_rank].lines.end("linked anew")
        link.prove(node_rank, sealing.Seal(self._proof("key", node_rank, nonces), "head", "node"))
        self.links[node_rank] = link
        link.lines.send(line_of({"proof": self._proof("head", node_rank, nonces)}))

    def heard(self, link, message):
        """A proven connection has said something."""
        self._on_message(link.node_rank, message)

    def ended(self, link):
        """A connection has ended."""
        if link in self._unproven:
            self._unproven.remove(link)
        if self.links.get(link.node_rank) is link:
            del self.links[link.node_rank]

    def _proof(self, role, node_rank, nonces):
        return sealing.proof(self._secret, role, self._run, node_rank, nonces)


class _Link:
    """A connection: unproven until its first line."""

    def __init__(self, hub, accepted):
        self._hub = hub
        self._seal = None
        self.nonce = sealing.nonce()
        self.node_rank = None
        self.deadline = time.monotonic() + PROOF_LIMIT
        self.lines = Lines(hub._loop, accepted, self._take, lambda why: hub.ended(self))
        self.lines.send(line_of({"rankdeck": "link", "nonce": self.nonce}))

    def prove(self, node_rank, seal):
        """It is that node's."""
        self.node_rank, self._seal = node_rank, seal
        self.lines.limit = LINE_LIMIT

    def say(self, message):
        """Send a sealed message."""
        self.lines.send(self._seal.close(message))

    def _take(self, line):
        if self._seal is None:
            self._hub.greet(self, object_of(line) or {})
            return
        try:
            message = self._seal.open(line)
        except (sealing.Forged, ValueError):
            self.lines.end("forged")
            return
        self._hub.heard(self, message)


def _listener(address, port):
    try:
        return _bound(address, port)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise
    try:
        return _bound("::", port)  # takes IPv4's connections, too (ipv6(7), IPV6_V6ONLY)
    except OSError:
        return _bound("0.0.0.0", port)


def _bound(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    numeric = socket.inet_pton(family, address)  # a name may be the loopback's in this machine's hosts
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if any(numeric) else 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(512)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
