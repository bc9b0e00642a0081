"""What a backend provides: a way to write to an agent, and the news of its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Channel(Protocol):
    """What carries the bytes: a child process's pipes, an SSH channel."""

    def write(self, data: bytes) -> None:
        """Queue bytes for the agent's stdin."""
        ...

    def close(self) -> None:
        """Close the agent's stdin; it ends by itself after that."""
        ...

    def abort(self) -> None:
        """Drop everything now."""
        ...


@dataclass(slots=True)
class Ending:
    """What is known of the way a channel ended."""

    status: int | None = None
    signal: str | None = None
    reason: str = ""
    """Why the transport broke, if it did."""
