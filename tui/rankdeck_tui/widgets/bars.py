"""The line at the top of each screen and the keys at its bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import ActiveBinding
from textual.strip import Strip

from rankdeck_tui.look import draw
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets.painted import Painted

MOST_KEYS = 8
"""Keys shown in the bottom line beside help and quit: more is not read."""
_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "exclamation_mark": "!",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "space": "space",
    "comma": ",",
    "full_stop": ".",
    "backslash": "\\",
}


def key_name(key: str) -> str:
    """A key as people write it: `?` for `question_mark`, `G` for `G`."""
    if key.startswith("ctrl+"):
        return "^" + key_name(key[5:])
    return _NAMES.get(key, key)


def shown_keys(active: dict[str, ActiveBinding]) -> list[tuple[str, str, ActiveBinding]]:
    """Key, description and binding of each action, once, in the order of their definition."""
    found: dict[tuple[int, str], tuple[str, str, ActiveBinding]] = {}
    for entry in active.values():
        name = entry.binding.key_display or key_name(entry.binding.key)
        found.setdefault((id(entry.node), entry.binding.action), (name, entry.binding.description, entry))
    return list(found.values())


class TitleBar(Painted):
    """Where one is, at the left; what matters now, at the right."""

    DEFAULT_CSS: ClassVar[str] = "TitleBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._left: Parts = ()
        self._right: Parts = ()

    def show(self, left: Sequence[Part], right: Sequence[Part] = ()) -> None:
        """Show these parts; repaints only if they differ."""
        new = (tuple(left), tuple(right))
        if new != (self._left, self._right):
            self._left, self._right = new
            self.repaint()

    def paint(self, width: int, height: int) -> list[Strip]:
        """One row."""
        ink = self.look.ink
        right: Parts = [*self._right, (" ", ink.text)] if self._right else ()
        return [
            draw.ends(
                [(" ", ink.text), *self._left], right, width, ink.text, ellipsis=self.look.glyphs.ellipsis
            )
        ]


class KeyBar(Painted):
    """The keys that act now, read from the bindings themselves."""

    DEFAULT_CSS: ClassVar[str] = "KeyBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[tuple[str, str]] = []

    def on_mount(self) -> None:
        """Follow the focus: each pane has keys of its own."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.repaint())

    def renew(self) -> None:
        """Something that keys depend on may have changed; repaints only if one of them differs."""
        if [key[:2] for key in self._keys()] != self._shown:
            self.repaint()

    def _keys(self) -> list[tuple[str, str, ActiveBinding]]:
        """Key, words and binding of what acts now, as the screen has it."""
        words = getattr(self.screen, "key_words", lambda binding: binding.description)
        return [
            (name, text, entry)
            for name, _, entry in shown_keys(self.screen.active_bindings)
            if entry.binding.show and (text := words(entry.binding))
        ]

    def paint(self, width: int, height: int) -> list[Strip]:
        """As many keys as fit; help and quit (or back) always."""
        ink = self.look.ink
        keys = self._keys()
        self._shown = [key[:2] for key in keys]
        fixed = [entry for entry in keys if (entry[2].binding.id or "").startswith("always.")]
        room = width - sum(len(name) + len(text) + 3 for name, text, _ in fixed) - 2
        parts: list[Part] = [(" ", ink.text)]
        for name, text, entry in [entry for entry in keys if entry not in fixed][:MOST_KEYS]:
            need = draw.width_of(name) + draw.width_of(text) + 3
            if need > room:
                break
            room -= need
            parts += [
                (name, ink.key if entry.enabled else ink.faint),
                (f" {text}  ", ink.dim if entry.enabled else ink.faint),
            ]
        end: list[Part] = []
        for name, text, _ in fixed:
            end += [(name, ink.key), (f" {text}  ", ink.dim)]
        return [draw.ends(parts, end, width, ink.text, ellipsis="")]
