"""A log whose lines a thread of its own brings."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class InBackground(ABC):
    """What such logs share: `_wake` is set when there may be something new, `_closed` for good."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._wake = threading.Event()

    def look(self) -> None:
        """Have the thread look for what is new."""
        self._wake.set()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()

    def _begin(self, name: str) -> None:
        """Start the thread, once all that it uses is there."""
        threading.Thread(target=self._work, name=name, daemon=True).start()

    @abstractmethod
    def _work(self) -> None:
        """Bring lines until it is closed."""
