"""What makes lines of different ranks the same line: the rule of folding (docs/logs.md). Pure.

Conservative: a word that differs always makes a line another one, so `nan` never passes for a number, nor
`float16` for `float32`. What is treated alike is listed in `_DIFFERS`; of a traceback only the last line is
looked at that way, since another frame, or another line of a file, is another failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from rankdeck_profiles.matching import short

LONGEST = 4_096
"""Characters of a line that are looked at; of what comes after them only that it is the same."""


class Kind(StrEnum):
    """What stands at a place where lines may differ."""

    NUMBER = "number"
    """Counts, measures, pids, ports, ranks."""
    NAME = "name"
    """Times of day, addresses in memory and of machines, hashes, progress bars, the rank's own node."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One such place in one line."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A line, or several that belong together, taken apart."""

    key: bytes
    """The same for all that are alike."""
    pieces: tuple[str, ...]
    """What stands before, between and after the slots: one more than there are slots."""
    slots: tuple[Slot, ...]


_OWN_NODE, _BAR = "\ue000", "\ue001"
"""Stand for the node's name and for a bar while a line is taken apart; `sanitise.clean` lets no such
character through."""

_DIFFERS = re.compile(
    r"""
    # What names a kind of failure is a word, see _NAMING.
    (?P<word> (?i:\b(?:exit|exitcode|code|status|signal|errno|error|xid|version))["']?[:=]["']?-?\d[\w.]*)
    # ISO 8601 and Python's logging; a time of day.
  | (?P<time> \d{4}-\d\d-\d\d(?:[T_]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?
      | (?<![\w.:])\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\w:]) )
    # Addresses in memory, UUIDs (RFC 9562), hashes; IPv4 addresses.
  | (?P<hex> 0x[0-9a-fA-F]+ | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
      | \b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]) )
  | (?P<bar> \ue001 )
  | (?P<node> \ue000 )
    # "rank3", "gpu_3": digits behind any other letter are part of a word.
  | (?:(?i:(?<![a-z])(?:rank|worker|proc|process|pid|tid|gpu|node|device|cuda|thread))_?)(?P<which>\d+)
  | (?P<number> (?:(?<![^=(\[:,|])[-+])? (?<![A-Za-z_0-9.]) \d+(?:\.\d+)?(?:[eE][-+]?\d+(?!\w))? )
    """,
    re.VERBOSE,
)
_NAMING = frozenset({"exit", "exitcode", "code", "status", "signal", "errno", "error", "xid", "version"})
"""A number behind one of these says what kind of thing it is: exit codes, signals, errno, error numbers of
CUDA and NCCL, Xid (docs.nvidia.com/deploy/xid-errors), versions."""
_QUOTES = "'\"()[]{}<>:=,"
_MAY_DIFFER = re.compile(r"[\d\ue000\ue001]")
_BARS = re.compile(r"(?<=%\|)[ #0-9\u2588-\u258f]+(?=\|)")
"""tqdm's, behind the percentage."""
_DAY = re.compile(r"[DIWEF]\d{2,4}")
"""How glog, absl and torch.distributed's launcher begin a line: "I1128 12:03:11"."""
_PREFIX = re.compile(r"^\[(?:rank|default)\d+\]:\s?")
"""Before each line, and left out, as the ranks are told anyway: torch.distributed's exception hook writes
"[rank3]: ", torchrun's --tee "[default3]:"."""
_SPACES = re.compile(r" {2,}")


def without_prefix(line: str) -> str:
    """A line without the rank that torch.distributed or torchrun puts before it."""
    return _PREFIX.sub("", line)


def shape(lines: Sequence[str], node: str = "") -> Shape:
    """Take lines that belong together apart.

    Args:
        lines: clean text: one line, or a traceback.
        node: the name of the rank's node, as in the record.
    """
    pieces: list[str] = [""]
    slots: list[Slot] = []
    beyond = ""
    for number, line in enumerate(lines):
        if number:
            pieces[-1] += "\n"
        text = without_prefix(line[:LONGEST]).rstrip()
        if number < len(lines) - 1:
            pieces[-1] += text
        else:
            _take_apart(text, node, pieces, slots)
        beyond += line[LONGEST:]
    # How wide a column of numbers is does not matter.
    told = _SPACES.sub(" ", "\0".join(pieces))
    kinds = "".join(slot.kind[:2] for slot in slots)
    key = blake2b(f"{told}\0{kinds}\0{beyond}".encode("utf-8", "replace"), digest_size=16).digest()
    return Shape(key, tuple(pieces), tuple(slots))


def _take_apart(text: str, node: str, pieces: list[str], slots: list[Slot]) -> None:
    """Adds a line's pieces and slots, word by word."""
    own, pattern = _own_name(node)
    if own and own in text:
        text = pattern.sub(_OWN_NODE, text)
    bars = _BARS.findall(text) if "%|" in text else []
    if bars:
        text = _BARS.sub(_BAR, text)
    literal, before = pieces.pop(), ""
    for index, word in enumerate(text.split(" ")):
        if index:
            literal += " "
        if word.isalpha() or not _MAY_DIFFER.search(word) or before.strip(_QUOTES).lower() in _NAMING:
            literal += word
        elif index == 0 and _DAY.fullmatch(word):
            pieces.append(literal + word[0])
            slots.append(Slot(Kind.NAME, word[1:]))
            literal = ""
        else:
            first, rest = _word(word)
            literal += first
            for kind, said, after in rest:
                pieces.append(literal)
                slots.append(Slot(Kind.NUMBER if kind in ("number", "which") else Kind.NAME, said))
                literal = after
        before = word or before
    pieces.append(literal)
    # What stood for something else says it again.
    for at, slot in enumerate(slots):
        if slot.text == _OWN_NODE:
            slots[at] = Slot(Kind.NAME, node)
        elif slot.text == _BAR:
            slots[at] = Slot(Kind.NAME, bars.pop(0))


@lru_cache(maxsize=16_384)
def _word(word: str) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    """A word's beginning; then of each slot its kind, its text, and what stands behind it."""
    found: list[tuple[str, str]] = []
    literals: list[str] = []
    position = 0
    for match in _DIFFERS.finditer(word):
        kind = match.lastgroup or ""
        if kind != "word":
            literals.append(word[position : match.start(kind)])
            found.append((kind, match[kind]))
            position = match.end()
    literals.append(word[position:])
    rest = tuple((*entry, after) for entry, after in zip(found, literals[1:], strict=True))
    return literals[0], rest


@lru_cache(maxsize=4096)
def _own_name(node: str) -> tuple[str, re.Pattern[str]]:
    """A node's short name, and what finds that or the full one."""
    own = short(node)
    return own, re.compile(rf"(?<![\w.-])(?:{re.escape(node)}|{re.escape(own)})(?![\w-])")
