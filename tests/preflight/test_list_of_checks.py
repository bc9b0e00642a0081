"""docs/checks.md lists every check as the catalogue has it; RANKDECK_GOLDENS=write writes it anew."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

from rankdeck_backends.preflight.catalogue import EVERY
from rankdeck_backends.preflight.check import Check

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"

HEAD = """# All checks

What each asks, and its rule; `rankdeck check --explain ID` adds what is read, the symptom, the fix and the
source. What is not known is skipped, never passed. See [preflight.md](preflight.md).
"""


def page() -> str:
    parts = [HEAD]
    for group, checks in groupby(EVERY, key=lambda check: check.group):
        parts += [
            f"\n## {group.value[:1].upper()}{group.value[1:]}\n",
            "\n| check | asks | rule | looks at |\n|---|---|---|---|\n",
        ]
        parts += [row(check) for check in checks]
    return "".join(parts)


def row(check: Check) -> str:
    cells = (f"`{check.id}`", check.title, check.rule, check.scope.value)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def test_the_page_lists_every_check() -> None:
    if os.environ.get("RANKDECK_GOLDENS") == "write":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "RANKDECK_GOLDENS=write writes docs/checks.md anew"
