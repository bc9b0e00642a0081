"""What the command line prints: data on stdout, everything said to the person on stderr."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

RED, GREEN, YELLOW, BLUE, GREY = "31", "32", "33", "34", "90"
"""SGR codes (ECMA-48) of the 16 colours that every terminal theme defines."""

STATE_COLOURS = {
    "succeeded": GREEN,
    "running": GREEN,
    "starting": BLUE,
    "checking": BLUE,
    "waiting": GREY,
    "stopping": YELLOW,
    "stopped": YELLOW,
    "failed": RED,
    "lost": RED,
    "unknown": YELLOW,
}


def prepare_streams() -> None:
    """Makes printing safe whatever the locale is: a character it can't hold is escaped, no error."""
    # Closed by the shell (`>&-`): Python has None there. What is said then goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for the process's whole life
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def forget_stdout() -> None:
    """Point stdout elsewhere once it can't be written.

    Python would complain once more when it flushes it at its exit (docs.python.org, "Note on SIGPIPE").
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """`text` with everything that is no character to draw made visible.

    So names and messages from nodes can't drive the terminal, nor hide in it (bidirectional overrides).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def error(message: str, hint: str = "") -> None:
    """Prints an error and what the person can do about it, to stderr."""
    head = paint("rankdeck:", RED, sys.stderr)
    _to_person(f"{head} {_indented(message, '  ')}")
    for line in hint.splitlines():
        _to_person(f"  {printable(line.strip())}")


def warning(message: str) -> None:
    """Prints something the person should know, to stderr."""
    _to_person(f"{paint('warning:', YELLOW, sys.stderr)} {_indented(message, '  ')}")


def say(message: str) -> None:
    """Prints progress or a remark, to stderr."""
    _to_person(printable(message))


def prompt(question: str, colour: str = "") -> None:
    """Prints a question to stderr, in a colour where there are any, and leaves the cursor behind it."""
    text = printable(question)
    print(paint(text, colour, sys.stderr) if colour else text, end="", file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """Prints one JSON document to stdout."""
    import json

    # Only ASCII: file names that are no valid UTF-8 arrive as lone surrogates, which no encoding can print.
    print(json.dumps(document, indent=2))


def colourful(stream: TextIO) -> bool:
    """Whether colours may be used: a terminal that has them, and no wish against it (no-color.org)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO) -> str:
    """`text` in a colour, where `stream` shows colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colourful(stream) else text


def state(name: str, stream: TextIO, width: int = 0) -> str:
    """A state's name in its colour, padded to `width` columns."""
    return paint(f"{name:<{width}}", STATE_COLOURS.get(name, GREY), stream)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows under headings to stdout, in columns. A column headed STATE is coloured."""
    from unicodedata import east_asian_width

    def width(text: str) -> int:
        return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)

    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max([len(head), *(width(row[i]) for row in cells)]) for i, head in enumerate(headings)]
    print(
        paint(_line(headings, [w - len(h) for h, w in zip(headings, widths, strict=True)]), GREY, sys.stdout)
    )
    state_column = headings.index("STATE") if "STATE" in headings else -1
    for row in cells:
        padding = [column - width(cell) for cell, column in zip(row, widths, strict=True)]
        if state_column >= 0:
            row[state_column] = state(row[state_column], sys.stdout)
        print(_line(row, padding))


def _line(cells: Sequence[str], padding: Sequence[int]) -> str:
    return "  ".join(cell + " " * pad for cell, pad in zip(cells, padding, strict=True)).rstrip()


def _indented(text: str, indent: str) -> str:
    return printable(text).replace("\n", f"\n{indent}")


def _to_person(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        # Nobody reads stderr; what was asked for goes on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
