"""Screens as text files. `RANKDECK_GOLDENS=write` writes them anew: read the difference first."""

from __future__ import annotations

import os
from pathlib import Path

from rankdeck_tui.app import RankdeckApp
from tui.deck import rows

FOLDER = Path(__file__).parent / "golden"


def check(app: RankdeckApp, name: str, place: Path) -> None:
    """Compare the screen with its file; the test's own folder is written as one of the same length."""
    stand_in = "/tmp/rd-" + "_" * (len(str(place)) - len("/tmp/rd-"))
    shown = "\n".join(row.replace(str(place), stand_in) for row in rows(app)) + "\n"
    path = FOLDER / f"{name}.txt"
    if os.environ.get("RANKDECK_GOLDENS") == "write":
        path.write_text(shown)
    assert path.exists(), f"{path} is missing: write it with RANKDECK_GOLDENS=write"
    assert shown == path.read_text(), f"{path} differs; RANKDECK_GOLDENS=write writes it anew"
