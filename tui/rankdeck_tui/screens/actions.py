"""Every action of a screen by name, with its key: for those who know what they want, not its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from rankdeck_tui.screens.pick import PickScreen
from rankdeck_tui.widgets.bars import key_name


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be done."""

    node: DOMNode
    """Where it is defined: a pane, the screen or the app."""
    action: str
    about: str
    """What it does."""
    name: str
    """Its short name, as the bottom line has it."""
    keys: str
    pane: str
    """What the pane is called; empty for the whole screen."""


def pane_name(node: DOMNode) -> str:
    """What people call a pane; empty for what acts on the whole screen."""
    return str(getattr(node, "PANE", ""))


def actions_of(screen: Screen[object]) -> Iterator[Action]:
    """What can be done on a screen: in the focused pane, by the screen, by the app, in other panes."""
    focused = screen.focused
    nodes: list[DOMNode] = [node for node in (focused, screen, screen.app) if node is not None]
    nodes += [node for node in screen.walk_children(Widget) if node.focusable and node not in nodes]
    seen: set[tuple[str, str]] = set()
    for node in nodes:
        grouped: dict[str, list[Binding]] = {}
        for _, binding in node._bindings:
            grouped.setdefault(binding.action, []).append(binding)
        for action, bindings in grouped.items():
            first = bindings[0]
            if not (first.id or "") or (type(node).__name__, action) in seen:
                continue
            seen.add((type(node).__name__, action))
            keys = " ".join(dict.fromkeys(key_name(binding.key) for binding in bindings))
            about = first.tooltip or first.description
            yield Action(node, action, about, first.description, keys, pane_name(node))


class ActionsScreen(PickScreen):
    """The palette: picks an action and does it where it belongs."""

    def __init__(self, screen: Screen[object]) -> None:
        """Make the palette for this screen."""
        # Plain movement, which needs no explaining, comes last.
        self._actions = sorted(actions_of(screen), key=lambda entry: entry.about == entry.name)
        entries = [
            (
                str(index),
                f"{entry.name.capitalize()}: {entry.about}" if entry.name != entry.about else entry.name,
                f"{entry.keys}  {entry.pane}".rstrip(),
            )
            for index, entry in enumerate(self._actions)
        ]
        super().__init__("Actions", entries)

    def picked(self, key: str) -> Action:
        """The action of a picked key."""
        return self._actions[int(key)]
