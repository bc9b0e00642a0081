"""What supervisors of one run say to each other, so that nobody else can.

Each proves that it knows the run's secret, which never travels. Every later line carries a code made with a
key of this one connection (RFC 2104) and its number in the direction it goes: nobody on the network between
can put words in, say one again or leave one out.
"""

import hashlib
import hmac
import json
import os


def nonce():
    """128 random bits, as text: new for each connection and each side."""
    return os.urandom(16).hex()


def proof(secret, role, run, node_rank, nonces):
    """What only one who knows the secret can say in answer to the other's nonce.

    Args:
        secret: the run's, as text.
        role: `head`, `node` or `key`: what is proven by one can't be sent back as the other.
        run: the run's id.
        node_rank: of the node that is linked to the head.
        nonces: the head's and the node's.
    """
    said = json.dumps(["rankdeck-link-1", role, run, node_rank] + list(nonces)).encode("ascii")
    return hmac.new(secret.encode("ascii"), said, hashlib.sha256).hexdigest()


def is_proven(expected, said):
    """Whether the other's proof is the expected one; takes the same time wherever they differ."""
    return isinstance(said, str) and hmac.compare_digest(
        expected.encode("ascii"), said.encode("utf-8", "replace")
    )


class Forged(Exception):
    """A line that the other side has not said, or not now."""


class Seal:
    """One end of a proven connection."""

    def __init__(self, key, own, other):
        """Begin to count.

        Args:
            key: the connection's, from `proof` with role `key`.
            own: the role of this end, `head` or `node`.
            other: that of the other.
        """
        self._key = key.encode("ascii")
        self._own, self._other = own, other
        self._sent = self._taken = 0

    def close(self, message):
        """A message as a line (bytes)."""
        said = json.dumps(message, separators=(",", ":")).encode("ascii")
        self._sent += 1
        return self._code(self._own, self._sent, said) + b" " + said + b"\n"

    def open(self, line):
        """A line (without its end) as a message.

        Raises:
            Forged: it is none of the other side's, or not the next one.
        """
        code, _, said = line.partition(b" ")
        self._taken += 1
        if not hmac.compare_digest(code, self._code(self._other, self._taken, said)):
            raise Forged()
        return json.loads(said.decode("ascii"))

    def _code(self, role, number, said):
        head = "{} {} ".format(role, number).encode("ascii")
        return hmac.new(self._key, head + said, hashlib.sha256).hexdigest().encode("ascii")
