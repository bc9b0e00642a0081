"""Draws a terminal screen as a picture: every cell in its place, with colours, bold, dim, reverse, underline.

As a script: ``python -m terminal.draw SCREEN.ansi OUT.png``, where SCREEN.ansi is what
``tmux capture-pane -e -N -p`` printed.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from terminal.sgr import Cell, Colour, grid

SIZE = 18
INK: Colour = (224, 224, 224)
PAPER: Colour = (18, 18, 18)
FONTS = Path("/usr/share/fonts/truetype/dejavu")
"""Where Debian's fonts-dejavu-core puts them."""


class FontError(Exception):
    """The fonts are not installed."""


@functools.cache
def _font(name: str) -> ImageFont.FreeTypeFont:
    try:
        return ImageFont.truetype(str(FONTS / name), SIZE)
    except OSError as error:
        raise FontError(f"no font {FONTS / name}: install fonts-dejavu-core") from error


@functools.cache
def _has(name: str, character: str) -> bool:
    """Whether a font has a glyph of its own for a character, not the box that stands for none."""
    return bytes(_font(name).getmask(character)) != bytes(_font(name).getmask("\U000fffff"))


def _font_for(cell: Cell) -> ImageFont.FreeTypeFont:
    mono = "DejaVuSansMono-Bold.ttf" if cell.style.bold else "DejaVuSansMono.ttf"
    for name in (mono, "DejaVuSans.ttf"):
        if _has(name, cell.text[0]):
            return _font(name)
    return _font(mono)


def cell_size() -> tuple[int, int]:
    """Width and height of a cell, in pixels."""
    font = _font("DejaVuSansMono.ttf")
    ascent, descent = font.getmetrics()
    return round(font.getlength("M")), ascent + descent


def colours(cell: Cell) -> tuple[Colour, Colour]:
    """Ink and paper of a cell as they are seen."""
    style = cell.style
    ink, paper = style.ink or INK, style.paper or PAPER
    if style.reverse:
        ink, paper = paper, ink
    if style.dim:
        ink = ((ink[0] + paper[0]) // 2, (ink[1] + paper[1]) // 2, (ink[2] + paper[2]) // 2)
    return ink, paper


def picture(screen: str, columns: int, rows: int) -> Image.Image:
    """The picture of a screen.

    Raises:
        FontError: The fonts are not installed.
    """
    wide, high = cell_size()
    image = Image.new("RGB", (columns * wide, rows * high), PAPER)
    pen = ImageDraw.Draw(image)
    cells = grid(screen, columns, rows)
    # All papers first: a letter may reach over its cell's edge, and the next cell must not wipe that away.
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            pen.rectangle((x * wide, y * high, (x + 1) * wide - 1, (y + 1) * high - 1), fill=colours(cell)[1])
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            _draw_cell(pen, cell, x * wide, y * high)
    return image


def _draw_cell(pen: ImageDraw.ImageDraw, cell: Cell, left: int, top: int) -> None:
    wide, high = cell_size()
    ink, _ = colours(cell)
    right = left + wide - 1
    if cell.text.strip():
        ascent, _ = _font("DejaVuSansMono.ttf").getmetrics()
        pen.text((left, top + ascent), cell.text, font=_font_for(cell), fill=ink, anchor="ls")
    if cell.style.underline:
        pen.line((left, top + high - 2, right, top + high - 2), fill=ink)
    if cell.style.strike:
        pen.line((left, top + high // 2, right, top + high // 2), fill=ink)


def main() -> None:
    """Draws one file."""
    parser = argparse.ArgumentParser(description="Draws a terminal screen as a picture.")
    parser.add_argument("screen", type=Path, help="what 'tmux capture-pane -e -N -p' printed")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("--columns", type=int, default=120)
    options = parser.parse_args()
    text = options.screen.read_text(errors="replace").rstrip("\n")
    picture(text, options.columns, text.count("\n") + 1).save(options.picture)


if __name__ == "__main__":
    main()
