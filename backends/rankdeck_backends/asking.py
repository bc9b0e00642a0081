"""What only a person can answer on the way to a node: whether a host key is right, a passphrase, a password.

A backend is given an `Asker`, or none: then whatever would have to be asked is refused with its reason.
Answers are kept in memory alone; they are never written, logged or put into a command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Hop:
    """One login on the way to a node."""

    node: str
    """The node it is for, the first one that needed it where many share a jump host."""
    host: str
    """The host as the pool or ProxyJump spells it."""
    position: int = 1
    """Which login it is, from 1."""
    of: int = 1
    """How many there are on this way, the node's own among them."""

    @property
    def label(self) -> str:
        """The host, in words for messages and questions; empty where it is the node itself, without hops."""
        if self.position == self.of:
            return ""
        return f"jump host {self.host} (hop {self.position} of {self.of})"

    @property
    def title(self) -> str:
        """Where this login goes, for the head of a question."""
        if self.of == 1:
            return f"node {self.node}"
        if self.position == self.of:
            return f"node {self.node} (hop {self.position} of {self.of})"
        return f"{self.label} on the way to {self.node}"


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A host key that no known_hosts file knows."""

    hop: Hop
    known_as: str
    """The name it will be known by: `host`, `[host]:port`, or HostKeyAlias."""
    algorithm: str
    fingerprint: str
    """`SHA256:...`, as ssh-keygen -l shows it."""
    saved_in: Path | None
    """The known_hosts file that it goes to if it is accepted; None: it is trusted by this process alone."""
    other_types: str = ""
    """Types of key that the host is known by already; empty if it is not known at all."""


class Accepted(Enum):
    """Answer to unknown host keys."""

    NONE = "none"
    FIRST = "first"
    """The first one of those shown; the others are asked for again."""
    ALL = "all"
    """All that were shown."""


class Kind(StrEnum):
    """What a secret is for."""

    PASSPHRASE = "passphrase"
    PASSWORD = "password"
    PROMPTS = "prompts"
    """Whatever the server asks (keyboard-interactive, RFC 4256): a code, a password, both."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line to be answered."""

    text: str
    """As the server words it: foreign text, to be cleaned before it is shown."""
    echo: bool = False
    """Whether what is typed may be seen."""


@dataclass(frozen=True, slots=True)
class SecretQuestion:
    """Something to be typed."""

    kind: Kind
    hop: Hop
    text: str
    """What is asked, in a line or two; a server's own words may be among them."""
    prompts: tuple[Prompt, ...]
    note: str = ""
    """Why it is asked once more."""


class Asker(Protocol):
    """Asks a person. Called on the backend's loop, one question at a time.

    A call that is cancelled takes its question back: the login it was for is over.
    """

    async def host_keys(self, keys: Sequence[ShownKey]) -> Accepted:
        """Whether these keys are the hosts' own. They are all new ones, never one that has changed."""
        ...

    async def secrets(self, question: SecretQuestion) -> Sequence[str] | None:
        """One answer a prompt, in order; None: the person does not answer, and the login is given up."""
        ...
