"""What the home screen's keys do, pane by pane, for the line at its bottom. Pure."""

from __future__ import annotations

from rankdeck_runs.pruning import may_go
from rankdeck_tui.screens.listing import Shelf, has_ended, parts_of

_NEW = {"profiles": "new profile", "pools": "new pool"}


def key_word(binding: str, pane: str, row: str | None, shelf: Shelf) -> str | None:
    """What a key does.

    Args:
        binding: its id, such as `home.edit`.
        pane: `runs`, `profiles` or `pools`.
        row: the key of the row that the cursor is on.
        shelf: what there is.

    Returns:
        A word or two; empty: it does nothing here; None: the same as everywhere.
    """
    kind, name = parts_of(row) if row is not None else ("", "")
    match binding:
        case "home.new":
            return _NEW.get(pane) or ("new run" if shelf.profiles else "new profile")
        case "home.open":
            return {"run": "open", "profile": "compose", "pool": "compose"}.get(kind, "")
        case "home.edit":
            return "edit" if kind == "profile" or (kind == "pool" and _has_file(name, shelf)) else ""
        case "home.repeat":
            return "launch again" if kind == "run" else ""
        case "home.change":
            return "change it" if kind == "run" else ""
        case "home.preflight":
            return "" if kind == "run" else None
        case "home.stop":
            return "stop" if kind == "run" and not _ended(name, shelf) else ""
        case "home.remove":
            return "remove" if any(entry.id == name and may_go(entry) for entry in shelf.runs) else ""
    return None


def _has_file(pool: str, shelf: Shelf) -> bool:
    return any(entry.name == pool and entry.source is not None for entry in shelf.pools)


def _ended(run: str, shelf: Shelf) -> bool:
    if run in shelf.live:
        return shelf.live[run].snapshot().state.is_terminal
    return any(entry.id == run and has_ended(entry) for entry in shelf.runs)
