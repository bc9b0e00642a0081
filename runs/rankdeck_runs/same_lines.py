"""The same line from many ranks once, with its ranks: who said what, and who did not. No files here."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rankdeck_runs.alike import Kind, Shape, Slot, shape

MOST_KINDS = 4_000
"""Lines that are kept apart at a time. A log whose lines all differ must not fill the memory."""
MOST_TEXT = 8_000_000
"""Characters of them at a time."""
MOST_VALUES = 8
"""Values of one number that are kept with their ranks: with more there is no odd one among them."""
MOST_ODD = 8
"""Odd ones that are told of one line."""

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Odd:
    """Ranks that said the line in another way than most."""

    ranks: tuple[int, ...]
    said: str
    """A number in the line, or how often it was said."""
    most: str
    """What it is with most of the ranks."""
    times: bool = False
    """It is about how often."""

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.said} times, most {self.most}" if self.times else f"{self.said}, most {self.most}"


@dataclass(slots=True)
class _Place:
    """One slot of a line, over all who said it."""

    kind: Kind
    first: str
    low: float = 0.0
    high: float = 0.0
    low_text: str = ""
    high_text: str = ""
    varies: bool = False
    by_value: dict[str, list[int]] | None = None
    """Value -> ranks, while every rank has said it once and the values are few."""

    def take(self, said: str, rank: int, *, again: bool) -> None:
        self.varies = self.varies or said != self.first
        if self.kind is not Kind.NUMBER:
            return
        value = float(said)
        if not self.low_text or value < self.low:
            self.low, self.low_text = value, said
        if not self.high_text or value > self.high:
            self.high, self.high_text = value, said
        if self.by_value is None:
            return
        if again or (said not in self.by_value and len(self.by_value) == MOST_VALUES):
            self.by_value = None
        else:
            self.by_value.setdefault(said, []).append(rank)

    @property
    def text(self) -> str:
        if not self.varies:
            return self.first
        if self.kind is Kind.NAME:
            return _ANY
        return f"{self.low_text}..{self.high_text}" if self.low < self.high else self.first

    def odd(self) -> Iterator[Odd]:
        """Values of fewer than half of the ranks, where one value is that of more than half."""
        if not self.by_value or len(self.by_value) < 2:
            return
        most, by = max(self.by_value.items(), key=lambda entry: len(entry[1]))
        if len(by) * 2 > sum(map(len, self.by_value.values())):
            for value, ranks in self.by_value.items():
                if value != most:
                    yield Odd(tuple(sorted(ranks)), value, most)


@dataclass(slots=True, eq=False)
class Said:
    """One line, or one traceback, and all who said it."""

    stream: str
    """`out` or `err`."""
    order: int
    """Counts the lines from 0, as they first came."""
    first: float | None
    """When it was first said: unix seconds; None: not known."""
    last: float | None
    world: tuple[int, ...]
    """The ranks that are looked at."""
    pieces: tuple[str, ...]
    _places: list[_Place]
    _counts: array[int]
    """How often each rank said it, in the order of `world`."""
    times: int = 0
    """How often it was said by all together."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who said it."""
        return tuple(rank for rank, count in zip(self.world, self._counts, strict=True) if count)

    @property
    def lines(self) -> list[str]:
        """The text. Where ranks differ, numbers stand as `lowest..highest`, and names as `*`."""
        texts = [self.pieces[0]]
        for place, piece in zip(self._places, self.pieces[1:], strict=True):
            texts += (place.text, piece)
        return "".join(texts).rstrip().split("\n")

    @property
    def each(self) -> tuple[int, int]:
        """How often it was said by a rank that said it: at least, and at most."""
        counts = [count for count in self._counts if count]
        return min(counts), max(counts)

    @property
    def by_all(self) -> bool:
        """Whether every rank said it, and none in another way than most."""
        return len(self.ranks) == len(self.world) and not self.odd

    @property
    def odd(self) -> list[Odd]:
        """Those who said it in another way than most; at most `MOST_ODD`."""
        found = [odd for place in self._places for odd in place.odd()]
        found += self._rarely()
        return found[:MOST_ODD]

    def _rarely(self) -> Iterator[Odd]:
        """Ranks that said it more than once less, or more, than most: they may hang, or started late."""
        counts = Counter(count for count in self._counts if count)
        usual, ranks = counts.most_common(1)[0]
        if ranks * 2 <= counts.total():
            return
        for count in sorted(counts):
            if abs(count - usual) > 1:
                by = tuple(r for r, said in zip(self.world, self._counts, strict=True) if said == count)
                yield Odd(by, str(count), str(usual), times=True)

    def take(self, at: int, slots: Sequence[Slot], seconds: float | None) -> None:
        """Note that the rank at this place of `world` said it."""
        again = self._counts[at] > 0
        self._counts[at] += 1
        self.times += 1
        if seconds is not None:
            self.first = seconds if self.first is None else min(self.first, seconds)
            self.last = seconds if self.last is None else max(self.last, seconds)
        for place, slot in zip(self._places, slots, strict=True):
            place.take(slot.text, self.world[at], again=again)


@dataclass(slots=True)
class SameLines:
    """Takes lines in, in any order, and holds each kind once.

    Lines with nothing on them are left out.

    Args:
        world: the ranks whose lines come.
    """

    world: tuple[int, ...]
    version: int = 0
    """Grows with every line."""
    _held: OrderedDict[tuple[str, bytes], Said] = field(default_factory=OrderedDict)
    _text: int = 0
    _came: int = 0
    _at: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._at = {rank: index for index, rank in enumerate(self.world)}

    def __iter__(self) -> Iterator[Said]:
        """All that are held, as they first came."""
        return iter(list(self._held.values()))

    def add(
        self, rank: int, stream: str, seconds: float | None, lines: Sequence[str], node: str = ""
    ) -> list[Said]:
        """Take a line in, or a traceback's lines.

        Args:
            rank: who said it: one of `world`.
            stream: `out` or `err`.
            seconds: when; None: not known.
            lines: clean text.
            node: the rank's node.

        Returns:
            Those that are held no longer, as there is no room: print them. What is said like them later on
            begins anew.
        """
        while lines and not lines[-1].strip():
            lines = lines[:-1]
        if not lines:
            return []
        found = shape(lines, node)
        said = self._held.get((stream, found.key))
        gone: list[Said] = []
        if said is None:
            said = self._begin(stream, found, seconds)
            gone = self._make_room()
        said.take(self._at[rank], found.slots, seconds)
        self.version += 1
        return gone

    def _begin(self, stream: str, found: Shape, seconds: float | None) -> Said:
        places = [_Place(slot.kind, slot.text, by_value={}) for slot in found.slots]
        counts = array("I", bytes(4 * len(self.world)))
        said = Said(stream, self._came, seconds, seconds, self.world, found.pieces, places, counts)
        self._held[stream, found.key] = said
        self._came += 1
        self._text += _size(said)
        return said

    def _make_room(self) -> list[Said]:
        gone: list[Said] = []
        while len(self._held) > 1 and (len(self._held) > MOST_KINDS or self._text > MOST_TEXT):
            _, said = self._held.popitem(last=False)
            self._text -= _size(said)
            gone.append(said)
        return gone


def _size(said: Said) -> int:
    # A slot takes some hundred bytes beside its text.
    return sum(map(len, said.pieces)) + 100 * len(said.pieces)
