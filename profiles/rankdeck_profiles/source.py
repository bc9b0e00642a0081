"""A TOML file's text and where in it things are, for messages that name the line."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdeck_profiles.errors import RankdeckError

KeyPath = tuple[str | int, ...]
"""A place in a TOML document: table keys, and an index for an element of an array."""

MAX_BYTES = 1 << 20
"""The largest profile or pool file that is read; more is some other file, named by mistake."""

_LONG_NUMBER = re.compile(r"[0-9][0-9_]{4000}")
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'))*)\s*="""
)
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'""")


@dataclass(frozen=True, slots=True)
class Source:
    """One file as read: its data, its text for finding lines, and the overrides put on top."""

    path: Path
    text: str
    data: Mapping[str, Any]
    error: type[RankdeckError]
    overridden: Mapping[KeyPath, str] = field(default_factory=dict)
    """Places whose value came from `--set`, with the override as typed."""
    saved: bool = True
    """False: no such file is there yet, and errors do not speak of it."""

    def problem(self, where: KeyPath, message: str, hint: str = "") -> RankdeckError:
        """An error that names the file and line of a key, or the override it came from."""
        error = self.error(f"{self._place(where)}{message}", hint)
        error.where = where
        return error

    def _place(self, where: KeyPath) -> str:
        for length in range(len(where), 0, -1):
            if where[:length] in self.overridden:
                return f"--set {self.overridden[where[:length]]}: "
        if not self.saved:
            return ""
        line = self.line(where)
        return f"{self.path}:{line}: " if line else f"{self.path}: "

    def value(self, where: KeyPath) -> Any:
        """What the data holds at a place; None if there is nothing."""
        found: Any = self.data
        for step in where:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def line(self, where: KeyPath) -> int | None:
        """The line a key stands on: an array element's own, if it can be told; else the nearest table's."""
        names = tuple(step for step in where if isinstance(step, str))
        lines = dict(_keys(self.text))
        for length in range(len(names), 0, -1):
            if names[:length] in lines:
                start = lines[names[:length]]
                exact = length == len(names) and isinstance(where[-1], int)
                return self._element_line(start, self.value(where), lines) if exact else start
        return None

    def _element_line(self, start: int, value: Any, lines: Mapping[tuple[str, ...], int]) -> int:
        end = min((line for line in lines.values() if line > start), default=1 << 30)
        wanted = value if isinstance(value, str) else str(value).lower()
        for number, text in enumerate(self.text.splitlines(), start=1):
            if start <= number < end and wanted in text:
                return number
        return start


def read(path: str | os.PathLike[str], error: type[RankdeckError]) -> Source:
    """Read a TOML file: UTF-8, with or without a byte order mark, any line ends.

    Args:
        path: the file.
        error: the class of what is raised.

    Raises:
        RankdeckError: of class `error`; it cannot be read, is not UTF-8 or not TOML. The message has file and
        line.
    """
    file = Path(path)
    try:
        raw = content(file, MAX_BYTES + 1)
    except FileNotFoundError:
        raise error(f"{file}: there is no such file") from None
    except OSError as problem:
        raise error(f"{file}: cannot be read: {problem.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise error(f"{file}: larger than {MAX_BYTES} bytes; that is no profile or pool")
    return parse(decode(raw, file, error), file, error)


_OWN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""A shell's `<(command)` and standard input: pipes that were meant for this process."""


def content(path: Path, limit: int) -> bytes:
    """The first bytes of a file. Anything else is refused: a FIFO gives nothing until somebody writes to it.

    Args:
        path: a file, or a pipe that this process was given (`<(command)`).
        limit: the most bytes.

    Raises:
        OSError: it can't be read, or is something else; `strerror` says what.
    """
    # Without O_NONBLOCK the opening of a FIFO waits for the other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        mode = os.fstat(descriptor).st_mode
        own_pipe = stat.S_ISFIFO(mode) and str(path).startswith(_OWN_PIPES)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and not own_pipe:
            kind = "a named pipe (FIFO)" if stat.S_ISFIFO(mode) else "a device"
            raise OSError(errno.EINVAL, f"it is {kind}; allowed: a regular file", str(path))
        os.set_blocking(descriptor, True)
        return stream.read(limit)


def decode(raw: bytes, path: Path, error: type[RankdeckError]) -> str:
    """The text of a file's bytes, without byte order mark.

    Raises:
        RankdeckError: of class `error`, with the line of the first byte that is not UTF-8.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise error(f"{path}:1: saved as UTF-16; a profile or pool is UTF-8", "save it again as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        # The offsets of utf-8-sig do not count the mark; it holds no line end, so lines are right either way.
        line = raw[: problem.start].count(b"\n") + 1
        raise error(
            f"{path}:{line}: byte 0x{problem.object[problem.start]:02x} is not UTF-8",
            "save the file as UTF-8",
        ) from None


def parse(text: str, path: Path, error: type[RankdeckError]) -> Source:
    """Take a document apart.

    Raises:
        RankdeckError: of class `error`; not TOML. The message has the line, the column and what is there.
    """
    import tomli

    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as problem:
        lines = text.splitlines()
        found = lines[problem.lineno - 1].strip() if problem.lineno <= len(lines) else ""
        where = f"{path}:{problem.lineno}: not TOML: {problem.msg}, at column {problem.colno}"
        raise error(f"{where} of `{found[:80]}`" if found else where, _toml_hint(problem.msg)) from None
    except RecursionError:
        raise error(f"{path}: not TOML: nested too deeply") from None
    except ValueError:  # Python makes no whole number of so many digits (sys.get_int_max_str_digits)
        lines = text.splitlines()
        number = next((n for n, line in enumerate(lines, 1) if _LONG_NUMBER.search(line)), 1)
        raise error(
            f"{path}:{number}: a number of thousands of digits: `{lines[number - 1].strip()[:40]}...`",
            f"allowed: whole numbers up to {2**63 - 1} (TOML, Integer)",
        ) from None
    return Source(path, text, data, error)


_TWICE = ("overwrite", "twice", "Duplicate", "redefine", "mutate")
_CLOSED = ("Unclosed", "Unterminated", "at the end of", "Expected '\"", 'Expected "', r"character '\n'")


def _toml_hint(said: str) -> str:
    """What to do about a fault, by what tomli says of it (its `_parser.py` has every text)."""
    if any(part in said for part in _TWICE):
        return "this key or table stands there twice: keep one of them"
    if "Unescaped" in said or "Escaped" in said or "hex value" in said:
        return "write a backslash as \\\\, or the text in single quotes, which keep it"
    if "\\n" not in said and "character" in said and "key part" not in said:
        return "take that character out: a line holds printable characters only"
    if any(part in said for part in _CLOSED):
        return "close the quote or the bracket on the same line"
    return 'a line is KEY = VALUE, and text needs quotes: script = "train.py"'


def _keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where tables and keys stand. Good enough for messages: keys inside inline tables are not told apart."""
    table: tuple[str, ...] = ()
    multiline = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if multiline:
            if line.count(multiline) % 2:
                multiline = ""
            continue
        if match := _HEADER.match(line):
            table = _parts(match[1])
            for length in range(1, len(table)):
                yield table[:length], number
            yield table, number
        elif match := _KEY.match(line):
            key = table + _parts(match[1])
            for length in range(len(table) + 1, len(key)):
                yield key[:length], number
            yield key, number
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                multiline = quotes


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(key))
