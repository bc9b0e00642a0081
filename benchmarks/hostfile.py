"""A host file of 1,000 nodes: how long it takes to be read, and to be shown in the pool's form.

Beside the readers that others have: DeepSpeed's, typed here from its launcher (launcher/runner.py,
`_parse_hostfile`), which takes one format and neither users nor ports; and ClusterShell's NodeSet, which
takes names alone and folds them. Showing is from the path in the field to the nodes on the screen (120x40, no
terminal), the thread that reads included.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measure
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from textual.widgets import Input

from rankdeck_profiles import hostfiles
from rankdeck_profiles.library import Library
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
from rankdeck_tui.app import RankdeckApp
from rankdeck_tui.screens.pool_form import PoolForm
from rankdeck_tui.widgets.node_list import NodeList

NODES = 1000
TIMEOUT = 30.0
"""Seconds after which the form counts as hung."""
SHOWN_LIMIT = 0.2
"""Seconds until the nodes are on the screen."""
NODESET_LIMIT = 1.0
"""Reading the whole file may take no longer than ClusterShell takes to fold its names."""
TEXT = "".join(f"gpu-{number:04}.cluster.example.org slots=8\n" for number in range(NODES))
NAMES = [line.split()[0] for line in TEXT.splitlines()]


def deepspeed(text: str) -> dict[str, int]:
    """DeepSpeed's reading."""
    pattern = r"^(\S+)\s+slots=(\d+)"
    pool: dict[str, int] = {}
    for line in text.splitlines():
        line = line.strip()
        match = re.search(pattern, line)
        if line.startswith("#") or line == "":
            continue
        if not match or match.group(1) in pool:
            raise ValueError(line)
        pool[match.group(1)] = int(match.group(2))
    return pool


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


async def shown(folder: Path, rounds: int) -> list[float]:
    """Seconds from a path in the form's field to its nodes on the screen, each round in a new form."""
    home = RunHome(folder / "home")
    engine = Engine(home)
    app = RankdeckApp(engine, home, Library(folder / "config", folder))
    found = []
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(lambda: "No run yet" in text(app))
            for _ in range(rounds):
                form = PoolForm(None)
                app.push_screen(form)
                await until(lambda form=form: app.screen is form and bool(form.query("#hostfile")))
                await pilot.pause()
                began = time.perf_counter()
                form.query_one("#hostfile", Input).value = "hosts"
                await until(lambda form=form: form.query_one(NodeList).rows and on_screen(app))
                found.append(time.perf_counter() - began)
                app.pop_screen()
                await pilot.pause()
    finally:
        engine.close()
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Looks every few milliseconds until it is so."""
    limit = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > limit:
            raise SystemExit(f"not within {TIMEOUT:g} s")
        await asyncio.sleep(0.004)


def on_screen(app: RankdeckApp) -> bool:
    return f"{NODES:,} nodes" in text(app)


def text(app: RankdeckApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def main() -> int:
    options = measure.arguments(__doc__, rounds=51, quick=11)
    report = measure.Report(f"A host file of {NODES:,} nodes, wall time in ms", ("", "median", "most"))
    variants: dict[str, Callable[[], object]] = {
        "rankdeck reads it": lambda: hostfiles.read(TEXT).checked(),
        "DeepSpeed's reader": lambda: deepspeed(TEXT),
        "ClusterShell's NodeSet of its names": lambda: NodeSet.fromlist(NAMES, resolver=RESOLVER_NOGROUP),
    }
    timed = {name: (lambda work=work: seconds(work)) for name, work in variants.items()}
    found = measure.interleave(options.rounds, timed)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "hosts").write_text(TEXT)
        found["read and shown in the form"] = asyncio.run(shown(Path(name), options.rounds))
    for what, times in found.items():
        milliseconds = [1000 * each for each in times]
        report.rows.append((what, f"{statistics.median(milliseconds):.1f}", f"{max(milliseconds):.1f}"))
        report.figures[what] = milliseconds
    ours, nodeset = found["rankdeck reads it"], found["ClusterShell's NodeSet of its names"]
    report.bars.append(
        measure.Bar("reading / ClusterShell's NodeSet", measure.pair_ratio(ours, nodeset), NODESET_LIMIT)
    )
    shown_median = statistics.median(found["read and shown in the form"])
    report.bars.append(measure.Bar("seconds until shown", shown_median, SHOWN_LIMIT))
    return report.finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
