"""Reads a screen as tmux prints it (text and SGR sequences) into a grid of cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Colour = tuple[int, int, int]

BASIC: tuple[Colour, ...] = (
    (0, 0, 0),
    (205, 49, 49),
    (13, 188, 121),
    (229, 229, 16),
    (36, 114, 200),
    (188, 63, 188),
    (17, 168, 205),
    (229, 229, 229),
    (102, 102, 102),
    (241, 76, 76),
    (35, 209, 139),
    (245, 245, 67),
    (59, 142, 234),
    (214, 112, 214),
    (41, 184, 219),
    (255, 255, 255),
)
"""The 16 colours that a terminal chooses itself, as Visual Studio Code does."""

SEQUENCE = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\x0e\x0f]")
"""SGR; hyperlinks and other sequences, which don't change a picture, are skipped."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a cell looks; a colour of None is the terminal's own."""

    ink: Colour | None = None
    paper: Colour | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One character with its style. A wide one is followed by an empty cell."""

    text: str = " "
    style: Style = field(default_factory=Style)


def palette(number: int) -> Colour:
    """One of xterm's 256 colours: 16 basic ones, a cube of 6 x 6 x 6, and 24 greys."""
    if number < 16:
        return BASIC[number]
    if number < 232:
        levels = (0, 95, 135, 175, 215, 255)
        number -= 16
        return levels[number // 36], levels[number // 6 % 6], levels[number % 6]
    return (8 + 10 * (number - 232),) * 3


ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


def restyled(style: Style, parameters: str) -> Style:
    """The style after one SGR sequence with these parameters."""
    # 4:3 is a curly underline: the part after the colon says which kind, and we draw one kind.
    numbers = iter([int(part.split(":")[0] or 0) for part in parameters.split(";")])
    changed: dict[str, Any] = {}
    for number in numbers:
        if number == 0:
            style, changed = Style(), {}
        elif number in ON:
            changed[ON[number]] = True
        elif number in OFF:
            changed.update(dict.fromkeys(OFF[number], False))
        elif number in (38, 48):
            changed["ink" if number == 38 else "paper"] = _extended(numbers)
        elif number in (39, 49):
            changed["ink" if number == 39 else "paper"] = None
        elif 30 <= number <= 37 or 90 <= number <= 97:
            changed["ink"] = BASIC[number - 30 if number < 90 else number - 82]
        elif 40 <= number <= 47 or 100 <= number <= 107:
            changed["paper"] = BASIC[number - 40 if number < 100 else number - 92]
    return replace(style, **changed)


def _extended(numbers: Iterator[int]) -> Colour | None:
    kind = next(numbers, None)
    if kind == 5:
        return palette(next(numbers, 0))
    if kind == 2:
        return next(numbers, 0), next(numbers, 0), next(numbers, 0)
    return None


def width(character: str) -> int:
    """Cells that a character takes: 0 for one that joins the one before, 2 for a wide one."""
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def grid(screen: str, columns: int, rows: int) -> list[list[Cell]]:
    """The cells of a screen, row by row, exactly rows x columns of them."""
    style = Style()
    lines = screen.split("\n")[:rows]
    cells = []
    for line in lines:
        row: list[Cell] = []
        at = 0
        for found in [*SEQUENCE.finditer(line), None]:
            row.extend(_cells(line[at : found.start() if found else len(line)], style, row))
            if found:
                at = found.end()
                style = restyled(style, found[1]) if found[1] is not None else style
        cells.append((row + [Cell()] * columns)[:columns])
    return cells + [[Cell()] * columns for _ in range(rows - len(cells))]


def _cells(text: str, style: Style, before: list[Cell]) -> list[Cell]:
    made: list[Cell] = []
    for character in text:
        wide = width(character)
        if wide == 0:
            last = made or before
            if last:
                last[-1] = replace(last[-1], text=last[-1].text + character)
            continue
        made.append(Cell(character, style))
        if wide == 2:
            made.append(Cell("", style))
    return made
