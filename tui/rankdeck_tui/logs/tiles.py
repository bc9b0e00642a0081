"""The tiles of a log board: which log each shows, and where it stands. No drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from textual.geometry import Region

from rankdeck_tui.logs.source import FileLog, Log
from rankdeck_tui.logs.view import LogView

NARROWEST: Final = 48
"""Tiles are put beside each other only if each gets this many cells: a log line is hard to read in less."""
MOST_TILES: Final = 12


class Stream(StrEnum):
    """Which of a rank's two logs a tile shows."""

    OUT = "out"
    ERR = "err"
    BOTH = "both"

    @property
    def next(self) -> Stream:
        """What the switch goes to."""
        order = list(Stream)
        return order[(order.index(self) + 1) % len(order)]

    @property
    def files(self) -> tuple[str, ...]:
        """The streams it stands for."""
        return ("out", "err") if self is Stream.BOTH else (str(self),)


class Fold(StrEnum):
    """How a tile shows the lines of many ranks."""

    LINES = "by time"
    """Each line, in the order of time."""
    SAME = "folded"
    """The same line of many ranks once."""
    ODD = "odd ones"
    """Only what not all of them said alike."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whose output a tile shows: a rank's, that of a launcher on a node, or that of many ranks."""

    rank: int | None = None
    node: str = ""
    """Of a launcher."""
    process: int = 0
    """Of a launcher: its index among the node's processes."""
    many: str = ""
    """Of many ranks: which ones, as `rank_choice` reads it."""

    @property
    def title(self) -> str:
        """Short name."""
        if self.many:
            return f"ranks {self.many}" if self.many[0].isdigit() else f"{self.many} ranks"
        return f"rank {self.rank}" if self.rank is not None else f"launcher {self.process}"


Locate = Callable[[Target, str], Path]
"""Gives the file of a target's stream (`out` or `err`)."""


class Many(Protocol):
    """Gives the logs of targets that stand for many ranks."""

    def files(self, target: Target, streams: Sequence[str]) -> Sequence[Path]:
        """All their files: others, once another attempt has begun."""

    def log(self, target: Target, streams: Sequence[str], fold: Fold) -> Log:
        """Their lines."""


class Tile:
    """One tile: a target, and one view for each stream it shows."""

    def __init__(self, target: Target, stream: Stream, locate: Locate, many: Many | None = None) -> None:
        self.target = target
        self.stream = stream
        self.fold = Fold.LINES
        self.active = 0
        """Which view the keys go to, where both streams are shown."""
        self.views: list[LogView] = []
        self.dirty = True
        self._locate = locate
        self._many = many
        self._open()

    @property
    def view(self) -> LogView:
        """The view the keys go to."""
        return self.views[self.active]

    def show(self, target: Target) -> None:
        """Show another target's log; wrapping, filter and search stay."""
        if target != self.target:
            self.target = target
            self._open()

    def show_stream(self, stream: Stream) -> None:
        """Show another stream."""
        if stream is not self.stream:
            self.stream = stream
            self._open()

    def show_fold(self, fold: Fold) -> None:
        """Show many ranks' lines in another way."""
        if fold is not self.fold:
            self.fold = fold
            self._open()

    def look_again(self) -> None:
        """Go on with the rank's newest attempt, if another one has begun."""
        if self._paths != self._located():
            self._open()

    def close(self) -> None:
        """End the views' threads."""
        for view in self.views:
            view.close()

    def _open(self) -> None:
        old = self.views[0] if self.views else None
        self.close()
        self._paths = self._located()
        if self.target.many and self._many is not None:
            self.views = [LogView(self._many.log(self.target, self.stream.files, self.fold))]
        else:
            self.views = [LogView(FileLog(path)) for path in self._paths]
        self.active = 0
        self.dirty = True
        if old is not None:
            for view in self.views:
                view.wrap = old.wrap
                view.set_filter(old.filter)
                view.set_query(old.query)

    def _located(self) -> list[Path]:
        if self.target.many and self._many is not None:
            return list(self._many.files(self.target, self.stream.files))
        return [self._locate(self.target, name) for name in self.stream.files]


def rectangles(count: int, width: int, height: int) -> list[Region]:
    """Where `count` tiles stand on a board of this size: in bands, each tile of a band equally wide.

    Args:
        count: number of tiles.
        width: cells of the board.
        height: rows of the board.
    """
    if count == 0:
        return []
    across = max(1, min(count, width // NARROWEST))
    # A band should be higher than three rows of text; with room for it, fewer columns read better.
    columns = next((c for c in range(1, across + 1) if -(-count // c) * 9 <= height), across)
    bands = -(-count // columns)
    result: list[Region] = []
    left = count
    top = 0
    for band in range(bands):
        tall = (height - top) // (bands - band)
        here = -(-left // (bands - band))
        x = 0
        for place in range(here):
            wide = (width - x) // (here - place)
            result.append(Region(x, top, wide, tall))
            x += wide
        left -= here
        top += tall
    return result


def band_rows(regions: Sequence[Region]) -> list[list[int]]:
    """The tiles' indices, band by band."""
    bands: dict[int, list[int]] = {}
    for index, region in enumerate(regions):
        bands.setdefault(region.y, []).append(index)
    return list(bands.values())
