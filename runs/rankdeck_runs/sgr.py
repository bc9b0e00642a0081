"""The colours and styles of terminal text as plain data: SGR (ECMA-48 8.3.117; colours as in ITU T.416)."""

from __future__ import annotations

from dataclasses import dataclass, replace

Color = int | tuple[int, int, int]
"""0-255 for the terminal's palette (0-15 are its theme's own), or red, green and blue."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a stretch of text looks. None is the terminal's own colour."""

    foreground: Color | None = None
    background: Color | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN = Style()

_ON: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    29: {"strike": False},
}
# Left out on purpose: 5 and 6 (blinking) and 8 (concealed): a log must not hide or flash.

_MOST_PARAMS = 64


def styled(style: Style, params: str) -> Style:
    """The style after an SGR sequence.

    Args:
        style: the style before it.
        params: the sequence's parameters, such as `1;31` or `38:2::255:0:0`; what is not understood is
            passed over.
    """
    groups = params.split(";")[:_MOST_PARAMS]
    index = 0
    while index < len(groups):
        parts = groups[index].split(":")
        code = _number(parts[0])
        index += 1
        if code in (38, 48, 58):
            if len(parts) > 1:
                color = _color([_number(part) for part in parts[1:]], colons=True)
            else:
                rest = [_number(group) for group in groups[index : index + 4]]
                color = _color(rest, colons=False)
                index += {5: 2, 2: 4}.get(rest[0] if rest else -1, 0)
            if color is not None and code != 58:
                style = _colored(style, code == 38, color)
        elif code == 4 and len(parts) > 1:
            style = replace(style, underline=_number(parts[1]) != 0)
        else:
            style = _simple(style, code)
    return style


def _simple(style: Style, code: int) -> Style:
    if code == 0:
        return PLAIN
    if code in _ON:
        changes: dict[str, bool] = _ON[code]
        return replace(style, **changes)
    if code in (39, 49):
        return _colored(style, code == 39, None)
    for first, foreground, offset in ((30, True, 0), (40, False, 0), (90, True, 8), (100, False, 8)):
        if first <= code <= first + 7:
            return _colored(style, foreground, code - first + offset)
    return style


def _colored(style: Style, foreground: bool, color: Color | None) -> Style:
    return replace(style, foreground=color) if foreground else replace(style, background=color)


def _color(numbers: list[int], *, colons: bool) -> Color | None:
    if numbers[:1] == [5] and len(numbers) >= 2 and 0 <= numbers[1] <= 255:
        return numbers[1]
    if numbers[:1] == [2]:
        # With colons, a colour space (often empty) may stand before red, green and blue.
        values = numbers[2:5] if colons and len(numbers) >= 5 else numbers[1:4]
        if len(values) == 3 and all(0 <= value <= 255 for value in values):
            return values[0], values[1], values[2]
    return None


def _number(text: str) -> int:
    """A parameter's value: an empty one is 0, one that is no sensible number is -1."""
    if not text:
        return 0
    return int(text) if len(text) <= 5 and text.isdecimal() and text.isascii() else -1
