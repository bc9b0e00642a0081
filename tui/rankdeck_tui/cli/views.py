"""How `rankdeck run` shows a run: as its ranks' lines, or as one JSON event a line."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankdeck_runs import events as record_events
from rankdeck_runs import layout
from rankdeck_runs.early import early
from rankdeck_runs.sanitise import plain
from rankdeck_runs.states import NodeState, RankState
from rankdeck_tui import stops, words
from rankdeck_tui.cli import output, wording
from rankdeck_tui.cli.ranklines import LinePrinter, launcher_sources, rank_sources
from rankdeck_tui.cli.tail import Tail

if TYPE_CHECKING:
    from rankdeck_runs.record import Record
    from rankdeck_runs.states import RunSnapshot

BOTH = ("out", "err")
"""The streams of a rank."""


class LinesView:
    """Ranks' lines on stdout.

    Args:
        logs: the record's `logs` folder.
        ranks: the ranks wanted; None: all, and their launchers too.
        streams: of `out` and `err`.
        pattern: only lines in which it is found.
        attempt: of a launcher that starts its ranks again; None: the newest, and each that begins meanwhile.
    """

    def __init__(
        self,
        logs: Path,
        ranks: Sequence[int] | None = None,
        streams: Sequence[str] = BOTH,
        pattern: re.Pattern[str] | None = None,
        attempt: int | None = None,
    ) -> None:
        self._logs = logs
        self._attempt = attempt
        self._reached = 0
        """The newest attempt at the last look; 0 before the first."""
        self._ranks = ranks
        self._streams = streams
        self._printer = LinePrinter(pattern)

    def show(self, snapshot: RunSnapshot) -> int:
        """Prints the lines that are new."""
        self._add(snapshot)
        self._printer.print_new()
        return self._printer.bytes_read

    def finish(self, snapshot: RunSnapshot) -> None:
        """Prints what is left, one file after the other."""
        self._add(snapshot)
        self._printer.print_rest()

    def _add(self, snapshot: RunSnapshot) -> None:
        ranks = range(len(snapshot.ranks)) if self._ranks is None else self._ranks
        for attempt in self._attempts(snapshot):
            self._printer.add(rank_sources(self._logs, snapshot, ranks, self._streams, attempt))
        if self._ranks is None:
            self._printer.add(launcher_sources(self._logs, snapshot, self._streams))

    def _attempts(self, snapshot: RunSnapshot) -> list[int | None]:
        """The newest, and those that have come and gone since the last look."""
        if self._attempt is not None:
            return [self._attempt]
        gone = range(self._reached, snapshot.attempt) if self._reached else ()
        self._reached = snapshot.attempt
        return [*gone, None]


class RunView:
    """What `rankdeck run` shows: ranks' lines on stdout, changes of state on stderr."""

    WAIT_SECONDS = 10.0
    """Between two lines that say for how long nodes have been waited for."""

    def __init__(self, logs: Path) -> None:
        self._lines = LinesView(logs)
        self._said: dict[str, str] = {}
        self._lost: set[str] = set()
        """Nodes whose connection is lost."""
        self._said_at = 0.0
        self._graces: set[str] = set()
        """Nodes of which was said that their ranks are being stopped."""

    def show(self, snapshot: RunSnapshot) -> int:
        """Prints new lines, and what has changed."""
        arrived = self._lines.show(snapshot)
        self._say_changes(snapshot)
        return arrived

    def finish(self, snapshot: RunSnapshot) -> None:
        """Prints the last lines."""
        self._lines.finish(snapshot)
        self._say_changes(snapshot)

    def _say_changes(self, snapshot: RunSnapshot) -> None:
        for node in snapshot.nodes:
            if node.name in self._lost and node.state is not NodeState.LOST:
                self._lost.remove(node.name)
                self._say_once(node.name, f"{node.name}: connected again")
            if node.message:
                self._say_once(node.name, f"{node.name}: {node.message}")
            if node.state is NodeState.LOST:
                self._lost.add(node.name)
        self._say_waits(snapshot)
        self._say_grace(snapshot)
        if done := early(snapshot, time.time()):
            self._say_once("early", done)
        for past in snapshot.earlier_attempts:
            self._say_once(f"attempt {past.attempt}", past.text)
        for rank in snapshot.ranks:
            if rank.state.is_terminal and rank.state is not RankState.SUCCEEDED:
                self._say_once(
                    f"rank {rank.rank}",
                    f"rank {rank.rank} on {rank.node} {rank.state}: {wording.ending(rank)}",
                )
        for note in snapshot.notes:
            self._say_once(note, note)

    def _say_waits(self, snapshot: RunSnapshot) -> None:
        waits = [(node.name, node.awaited) for node in snapshot.nodes if node.awaited is not None]
        if not waits or time.monotonic() - self._said_at < self.WAIT_SECONDS:
            return
        self._said_at = time.monotonic()
        longest = words.duration(time.time() - min(since for _, since in waits))
        output.say(f"ranks begin together: waiting for {', '.join(name for name, _ in waits)}, {longest}")

    def _say_grace(self, snapshot: RunSnapshot) -> None:
        for node in snapshot.nodes:
            if node.kill_at is None or node.name in self._graces:
                continue
            self._graces.add(node.name)
            alive = sum(not snapshot.ranks[rank].state.is_terminal for rank in node.ranks)
            left = stops.countdown(node.kill_at - time.time())
            output.say(f"{node.name}: stopping {words.plural(alive, 'rank')}, {left} to what is left")

    def _say_once(self, key: str, message: str) -> None:
        if self._said.get(key) != message:
            self._said[key] = message
            output.say(message)


class RawView:
    """One log's bytes on stdout, exactly."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)

    def show(self, snapshot: RunSnapshot) -> int:
        """Writes the bytes that are new."""
        for chunk in self._tail.chunks():
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return self._tail.offset

    def finish(self, snapshot: RunSnapshot) -> None:
        """Writes what is left."""
        self.show(snapshot)


class EventsView:
    """The record's events on stdout, one JSON object a line."""

    def __init__(self, events: Path) -> None:
        self._tail = Tail(events)
        self._seen: set[tuple[str, str]] = set()

    def show(self, snapshot: RunSnapshot) -> int:
        """Prints new events."""
        for line in self._tail.lines():
            event = record_events.parse(line)
            if event is None:
                continue  # a line that a killed writer left torn
            # Two rankdecks that follow the same run may both record what a node said.
            if "seq" in event:
                key = (str(event.get("node")), str(event["seq"]))
                if key in self._seen:
                    continue
                self._seen.add(key)
            sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
        return self._tail.offset

    def finish(self, snapshot: RunSnapshot) -> None:
        """Prints the rest, and the run's end."""
        self.show(snapshot)
        end = {
            "ev": "run_ended",
            "id": snapshot.id,
            "state": str(snapshot.state),
            "exit_status": snapshot.exit_status,
        }
        print(json.dumps(end), flush=True)


class ProgressView:
    """A few lines on stderr: how many ranks are in which state, and now and then rank 0's latest line."""

    SECONDS = 2.0
    """Between two lines of rank 0's."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._attempt = 1
        self._tail = Tail(record.log_path(layout.rank_log(0, "out")))
        self._read_before = 0
        self._states = ""
        self._last_line = b""
        self._said_at = 0.0
        self._graces: set[str] = set()
        """Nodes of which was said that their ranks are being stopped."""

    def show(self, snapshot: RunSnapshot) -> int:
        """Says what has changed."""
        counts = ", ".join(
            f"{snapshot.counts[state]} {state}" for state in RankState if state in snapshot.counts
        )
        if counts != self._states:
            self._states = counts
            output.say(f"ranks: {counts}")
        self._go_on_with(snapshot)
        for line in self._tail.lines():
            self._last_line = line
        if self._last_line and time.monotonic() - self._said_at >= self.SECONDS:
            output.say(f"rank 0: {plain(self._last_line)}")
            self._last_line, self._said_at = b"", time.monotonic()
        return self._read_before + self._tail.offset

    def finish(self, snapshot: RunSnapshot) -> None:
        """Says the last line."""
        self._said_at = 0.0
        self.show(snapshot)

    def _go_on_with(self, snapshot: RunSnapshot) -> None:
        """Turns to rank 0's newest log where its launcher has started the ranks again."""
        if snapshot.attempt == self._attempt:
            return
        for past in snapshot.earlier_attempts[self._attempt - 1 :]:
            output.say(past.text)
        self._attempt = snapshot.attempt
        output.say(f"rank 0: now of attempt {self._attempt}")
        self._read_before += self._tail.offset
        self._tail = Tail(self._record.log_path(layout.rank_log(0, "out", self._attempt)))
        self._last_line = b""
