"""Screens as text files. `RANKDECK_GOLDENS=write` writes them anew: read the difference first."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from rankdeck_tui.app import RankdeckApp
from tui.deck import rows

FOLDER = Path(__file__).parent / "golden"


SETTLED = 0.5
"""Seconds without a change after which a screen counts as drawn, where there is no file to compare with."""
LIMIT = 20.0


async def check(app: RankdeckApp, name: str, place: Path) -> None:
    """Compare the screen with its file, once it has settled.

    The test's own folder is written as one of the same length.
    """
    path = FOLDER / f"{name}.txt"
    if os.environ.get("RANKDECK_GOLDENS") == "write":
        path.write_text(await _settled(app, place))
    assert path.exists(), f"{path} is missing: write it with RANKDECK_GOLDENS=write"
    wanted = path.read_text()
    deadline = time.monotonic() + LIMIT
    shown = _shown(app, place)
    while shown != wanted and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        shown = _shown(app, place)
    assert shown == wanted, f"{path} differs; RANKDECK_GOLDENS=write writes it anew:\n{shown}"


async def _settled(app: RankdeckApp, place: Path) -> str:
    shown, since = _shown(app, place), time.monotonic()
    while time.monotonic() - since < SETTLED:
        await asyncio.sleep(0.05)
        if (now := _shown(app, place)) != shown:
            shown, since = now, time.monotonic()
    return shown


def _shown(app: RankdeckApp, place: Path) -> str:
    stand_in = "/tmp/rd-" + "_" * (len(str(place)) - len("/tmp/rd-"))
    return "\n".join(row.replace(str(place), stand_in) for row in rows(app)) + "\n"
