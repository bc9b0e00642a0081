"""One followed run's record and its live view, changed together."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rankdeck_runs import events, layout
from rankdeck_runs.live import LiveRun
from rankdeck_runs.mirror import Mirror
from rankdeck_runs.record import Record
from rankdeck_runs.values import integer

GPU_SECONDS = 5.0
"""gpu.jsonl keeps one sample of each node in so many seconds."""


STEADY_SECONDS = 8.0
"""A record that could not be written counts as writable again after so long without another failure: longer
than nodes are left alone before they are asked again (`node_follow.RETRY_MOST`)."""


class RunWriter:
    """Takes in what nodes send: first to disk, then to the live view. So nothing is shown that can be lost.

    Args:
        record: the run's record.
        live: its live view.
        offset: behind the last event that the live view has taken in.
        on_event: called with each event once it is in both.
    """

    def __init__(
        self,
        record: Record,
        live: LiveRun,
        offset: int,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.record = record
        self.live = live
        self.mirror = Mirror(record.logs_path)
        self._on_event = on_event
        self._offset = offset
        self._failed_at = 0.0
        self._gpu_written: dict[str, float] = {}

    def own_event(self, ev: str, **fields: Any) -> None:
        """Add an event of the login side.

        Raises:
            OSError: the record can't be written.
        """
        self._take(events.make(ev, **fields))

    def node_event(self, node: str, event: Mapping[str, Any]) -> None:
        """Add an event that a node sent, unless it is here already.

        Raises:
            OSError: the record can't be written; the node will be asked for the event again.
        """
        seq = integer(event, "seq")
        if seq is not None and seq > self.live.last_seq(node):
            self._take({**event, "node": node})

    def logs(self, node_rank: int, parts: Sequence[tuple[str, int, memoryview]]) -> None:
        """Add bytes of logs: of each its name as in the protocol, the offset and the bytes.

        Raises:
            GapError: bytes before them are missing.
            OSError: they can't be written.
        """
        sizes = {}
        write = self.mirror.write
        with self._told():
            for name, offset, data in parts:
                file = layout.from_protocol(name, node_rank)
                if file is not None:
                    write(file, offset, data)
                    sizes[name] = offset + len(data)
        self.live.set_sizes(sizes, time.time())

    def sample(self, node: str, sample: Mapping[str, Any]) -> None:
        """Show a node's load, and keep its GPUs' now and then.

        Raises:
            OSError: the record can't be written.
        """
        self.live.add_sample(node, sample)
        now = time.monotonic()
        if sample.get("gpus") and now - self._gpu_written.get(node, -GPU_SECONDS) >= GPU_SECONDS:
            self._gpu_written[node] = now
            line = json.dumps({"t": sample.get("t"), "node": node, "gpus": sample["gpus"]}) + "\n"
            handle = os.open(
                self.record.path / layout.GPUS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)

    def absorb(self) -> None:
        """Show what another rankdeck has written meanwhile: that a person asked for the stop, above all.

        Its links are not ours, and our own events are in the view already.
        """
        for behind, event in events.read_from(self.record.events_path, self._offset):
            self._offset = behind
            foreign = event.get("by") != events.WRITER and event["ev"] not in ("link_up", "link_lost")
            if foreign and self.live.apply(event) and self._on_event is not None:
                self._on_event(event)

    def close(self) -> None:
        """Close the files."""
        self.mirror.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Have the live view say whether the record can be written."""
        try:
            yield
        except OSError as error:
            self._failed_at = time.monotonic()
            self.live.set_unwritten(error.strerror or str(error))
            raise
        # A full disk takes a few bytes now and then: that is no sign that it takes the rest.
        if self.live.unwritten and time.monotonic() - self._failed_at > STEADY_SECONDS:
            self.live.set_unwritten("")

    def _take(self, event: Mapping[str, Any]) -> None:
        with self._told():
            events.append(self.record.events_path, event)
        if event["ev"] == "complete":
            self.live.set_unwritten("")
        if self.live.apply(event) and self._on_event is not None:
            self._on_event(event)
