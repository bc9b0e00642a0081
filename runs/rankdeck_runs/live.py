"""A followed run, as the network thread writes it and the screens read it.

Everything here is in memory and never waits for the network: readers compare `version` on a timer and look
again only when it has grown.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from rankdeck_runs import layout
from rankdeck_runs.failures import Failure
from rankdeck_runs.fold import Fold
from rankdeck_runs.metrics.book import MetricsBook
from rankdeck_runs.states import RunSnapshot

HISTORY_LENGTH = 900
"""Samples kept for each node: half an hour at one every 2 s."""

Sample = Mapping[str, Any]
"""A node's load at one moment, as the agent's `sample` event gives it (docs/agent-protocol.md)."""


class LinkState(StrEnum):
    """How the connection to one node of a followed run stands."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    """It broke or could not be made; it is tried again."""
    ENDED = "ended"
    """The node has ended and all it had is in the record: no link is needed any more."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The connection to one node."""

    state: LinkState
    since: float
    """Unix seconds on this machine."""
    message: str = ""
    """Why it is lost."""
    needs_person: bool = False
    """It is not tried again by itself: a login asked something that the person did not answer."""


class Growth(NamedTuple):
    """How large one log of a rank is, and when it last grew."""

    size: int = 0
    """Bytes that the rank wrote, as far as its node has told; the record may still hold fewer."""
    grown: float | None = None
    """Unix seconds on this machine's clock; None: not since we follow."""


class LiveRun:
    """A run that is followed. Every method may be called from any thread.

    Args:
        run_id: the run's id.
        path: the record's folder.
        fold: has taken in every event in the record.
        sizes: bytes of each log in the record (`3.out` -> 1024).

    Attributes:
        run_id: the run's id.
        path: the record's folder.
        metrics: the numbers in its logs.
    """

    def __init__(self, run_id: str, path: Path, fold: Fold, sizes: Mapping[str, int] | None = None) -> None:
        self.run_id = run_id
        self.path = path
        self.metrics = MetricsBook(path)
        self._fold = fold
        self._changed = threading.Condition()
        self._version = 1
        self._snapshot: RunSnapshot | None = None
        self._links: dict[str, LinkStatus] = {}
        self._samples: dict[str, Sample] = {}
        self._history: dict[str, deque[Sample]] = {}
        self._growth = {name: Growth(size) for name, size in (sizes or {}).items()}
        self._unwritten = ""
        self._proven = 0
        self._watched: frozenset[int] | None = None
        self._timed: frozenset[int] = frozenset()
        self._on_watch: Callable[[], None] | None = None
        self._on_reconnect: Callable[[], None] | None = None

    # What readers use.

    @property
    def version(self) -> int:
        """A number that grows with every change of anything here."""
        return self._version

    def snapshot(self) -> RunSnapshot:
        """The run's state: the same object until something in it has changed.

        Log sizes of running ranks are not part of it: see `growth`.
        """
        with self._changed:
            if self._snapshot is None:
                self._snapshot = self._fold.snapshot()
            return self._snapshot

    @property
    def links(self) -> Mapping[str, LinkStatus]:
        """Node name -> its link."""
        with self._changed:
            return dict(self._links)

    @property
    def samples(self) -> Mapping[str, Sample]:
        """Node name -> its latest sample; nodes that sent none are left out."""
        with self._changed:
            return dict(self._samples)

    @property
    def unwritten(self) -> str:
        """Why the record can't be written, such as `No space left on device`; empty while it can.

        Nothing is lost meanwhile: nodes are asked again for all that is not in the record.
        """
        return self._unwritten

    @property
    def proven(self) -> int:
        """A number that grows while the record's copies of logs are compared with the nodes' own."""
        return self._proven

    def history(self, node: str) -> tuple[Sample, ...]:
        """The node's samples, oldest first, at most `HISTORY_LENGTH`."""
        with self._changed:
            return tuple(self._history.get(node, ()))

    def growth(self, rank: int, stream: str) -> Growth:
        """Size and last growth of a rank's log in its newest attempt; stream is `out` or `err`."""
        with self._changed:
            ranks = self.snapshot().ranks
            attempt = ranks[rank].attempt if 0 <= rank < len(ranks) else 1
            return self._growth.get(layout.log_name(rank, stream, attempt), Growth())

    def watch(self, ranks: Iterable[int] | None, *, timed: Iterable[int] = ()) -> None:
        """Say which ranks' logs somebody looks at: theirs are brought at once.

        Args:
            ranks: None for no wish. A world of up to 64 ranks is always followed whole; of a larger one
                only the watched ranks' logs, and all the rest once the run has ended.
            timed: of which ranks the times are wanted, too, at which their logs grew; those of others
                come at the end.
        """
        with self._changed:
            self._watched = None if ranks is None else frozenset(ranks)
            self._timed = frozenset(timed)
            on_watch = self._on_watch
        if on_watch is not None:
            on_watch()

    def reconnect(self) -> None:
        """Try lost links again, now, those too that wait for a person to answer a login's question."""
        with self._changed:
            on_reconnect = self._on_reconnect
        if on_reconnect is not None:
            on_reconnect()

    @property
    def watched(self) -> frozenset[int] | None:
        """What `watch` was last told."""
        with self._changed:
            return self._watched

    @property
    def timed(self) -> frozenset[int]:
        """Of which ranks `watch` was last told that the times are wanted."""
        with self._changed:
            return self._timed

    def wait(self, version: int, timeout: float) -> int:
        """Wait until `version` is no longer the newest.

        Args:
            version: the version the caller has seen.
            timeout: at most this many seconds.

        Returns:
            The version now, the same one if nothing changed in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout)
            return self._version

    # What the network thread calls.

    def apply(self, event: Mapping[str, Any]) -> bool:
        """Fold one event in; False if it was a double and changed nothing."""
        with self._changed:
            if not self._fold.apply(event):
                return False
            self._snapshot = None
            self._bump()
            return True

    def set_link(self, node: str, state: LinkState, message: str = "", *, needs_person: bool = False) -> None:
        """Note how the link to a node stands."""
        with self._changed:
            known = self._links.get(node)
            # What is lost has been so since it was lost, whatever each new try runs into.
            still = known is not None and known.state is state is LinkState.LOST
            since = known.since if known is not None and still else time.time()
            self._links[node] = LinkStatus(state, since, message, needs_person)
            self._bump()

    def set_unwritten(self, why: str) -> None:
        """Note whether the record can be written: why not, or an empty text."""
        if why != self._unwritten:
            with self._changed:
                self._unwritten = why
                self._bump()

    def add_proven(self, count: int) -> None:
        """Note that so many more bytes were hashed, on a node or here."""
        with self._changed:
            self._proven += count
            self._bump()

    def add_sample(self, node: str, sample: Sample) -> None:
        """Take a node's newest sample in."""
        with self._changed:
            self._samples[node] = sample
            self._history.setdefault(node, deque(maxlen=HISTORY_LENGTH)).append(sample)
            self._bump()

    def set_size(self, name: str, size: int, grown: float | None) -> None:
        """Note a log's size; name as in the protocol, such as `3.out`."""
        self.set_sizes({name: size}, grown)

    def set_sizes(self, sizes: Mapping[str, int], grown: float | None) -> None:
        """Note the sizes of logs that grew at the same time."""
        with self._changed:
            for name, size in sizes.items():
                self._growth[name] = Growth(size, grown)
            self._bump()

    def on_watch(self, callback: Callable[[], None] | None) -> None:
        """Have `callback` called, in the caller's thread, whenever `watch` was."""
        with self._changed:
            self._on_watch = callback

    def on_reconnect(self, callback: Callable[[], None] | None) -> None:
        """Have `callback` called, in the caller's thread, whenever `reconnect` was."""
        with self._changed:
            self._on_reconnect = callback

    def last_seq(self, node: str) -> int:
        """The number of the last of the node's events before which none is missing."""
        with self._changed:
            return self._fold.last_seq(node)

    def failures(self) -> Sequence[Failure]:
        """All failures in order, that first from which the others followed."""
        with self._changed:
            return self._fold.failures()

    def _bump(self) -> None:
        self._version += 1
        self._changed.notify_all()
