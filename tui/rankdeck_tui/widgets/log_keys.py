"""The keys of a log board."""

from __future__ import annotations

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("G,end,F", "to_end", "follow", tooltip="To the end, and follow what comes", id="log.follow"),
    Binding(
        "slash", "ask('filter')", "filter", tooltip="Show only matching lines; ! inverts", id="log.filter"
    ),
    Binding(
        "z",
        "fold",
        "fold",
        tooltip="Of many ranks the same lines once, with the ranks",
        id="log.fold",
    ),
    Binding(
        "n",
        "search(False)",
        "search",
        tooltip="To the next hit below; asks for a text first",
        id="log.next",
    ),
    Binding(
        "N",
        "search(True)",
        "Previous hit",
        show=False,
        tooltip="To the next hit above",
        id="log.previous",
    ),
    Binding("ctrl+f", "ask('search')", "Search for another text", show=False, id="log.search"),
    Binding("w", "wrap", "wrap", tooltip="Wrap long lines, or cut them", id="log.wrap"),
    Binding("o", "stream", "out/err", tooltip="Show stdout, stderr or both", id="log.stream"),
    Binding("Z", "odd", "odd ones", show=False, tooltip="Only what not all ranks said alike", id="log.odd"),
    Binding("c,X", "close_tile", "close tile", show=False, tooltip="Close this tile", id="log.close"),
    Binding("tab", "next_tile(1)", "Next tile", show=False, id="log.next_tile"),
    Binding("shift+tab", "next_tile(-1)", "Previous tile", show=False, id="log.previous_tile"),
    Binding("up,k", "scroll(-1)", "Up", show=False, id="log.up"),
    Binding("down,j", "scroll(1)", "Down", show=False, id="log.down"),
    Binding("pageup,b", "page(-1.0)", "Page up", show=False, id="log.page_up"),
    Binding("pagedown,space", "page(1.0)", "Page down", show=False, id="log.page_down"),
    Binding("u", "page(-0.5)", "Half a page up", show=False, id="log.half_up"),
    Binding("d", "page(0.5)", "Half a page down", show=False, id="log.half_down"),
    Binding("left,h", "sideways(-16)", "Left", show=False, id="log.left"),
    Binding("right,l", "sideways(16)", "Right", show=False, id="log.right"),
    Binding("g,home", "to_start", "Beginning", show=False, id="log.start"),
]
